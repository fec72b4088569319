/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver without a GPU: all that cuDNN needs of `libcuda.so.1` before it compiles a kernel.  Programs load, and
 * nothing runs: the others say that there is no device.
 */
static char there;
#define MADE(name) int name(void** made) { *made = &there; return 0; }
#define DONE(name) int name(void) { return 0; }
#define NONE(name) int name(void) { return 100; } /* CUDA_ERROR_NO_DEVICE */

MADE(cuKernelGetFunction)
MADE(cuLibraryGetKernel)
MADE(cuLibraryLoadData)
MADE(cuLibraryLoadFromFile)
MADE(cuModuleGetFunction)
MADE(cuModuleLoadData)
MADE(cuModuleLoadDataEx)
DONE(cuFuncSetAttribute)
DONE(cuKernelSetAttribute)
DONE(cuLibraryUnload)
DONE(cuModuleUnload)
NONE(cuCtxGetCurrent)
NONE(cuCtxGetLimit)
NONE(cuCtxPopCurrent)
NONE(cuCtxPushCurrent)
NONE(cuDeviceGet)
NONE(cuDeviceGetCount)
NONE(cuDriverGetVersion)
NONE(cuGetErrorName)
NONE(cuGetErrorString)
NONE(cuKernelGetAttribute)
NONE(cuLaunchCooperativeKernel)
NONE(cuLaunchKernel)
NONE(cuLaunchKernelEx)
NONE(cuLinkAddData)
NONE(cuLinkComplete)
NONE(cuLinkCreate)
NONE(cuLinkDestroy)
NONE(cuOccupancyMaxPotentialClusterSize)
NONE(cuStreamGetCtx)
NONE(cuTensorMapEncodeIm2col)
NONE(cuTensorMapEncodeTiled)
