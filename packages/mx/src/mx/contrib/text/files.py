# SPDX-License-Identifier: Apache-2.0
"""Names of the files of word vectors that MXNet's classes know."""

from __future__ import annotations

GLOVE = (
    "glove.42B.300d.txt", "glove.6B.50d.txt", "glove.6B.100d.txt", "glove.6B.200d.txt", "glove.6B.300d.txt",
    "glove.840B.300d.txt", "glove.twitter.27B.25d.txt", "glove.twitter.27B.50d.txt", "glove.twitter.27B.100d.txt",
    "glove.twitter.27B.200d.txt",
)  # fmt: skip

#: codes of Wikipedias
_WIKIPEDIAS = """
aa ab ace ady af ak als am ang an arc ar arz ast as av ay azb az bar bat_smg ba bcl be bg bh bi bjn bm bn bo bpy br bs
bug bxr ca cbk_zam cdo ceb ce cho chr ch chy ckb co crh cr csb cs cu cv cy da de diq dsb dv dz ee el eml en eo es et eu
ext fa ff fiu_vro fi fj fo frp frr fr fur fy gag gan ga gd glk gl gn gom got gu gv hak ha haw he hif hi ho hr hsb ht hu
hy hz ia id ie ig ii ik ilo io is it iu jam ja jbo jv kaa kab ka kbd kg ki kj kk kl km kn koi ko krc kr ksh ks ku kv kw
ky lad la lbe lb lez lg lij li lmo ln lo lrc ltg lt lv mai map_bms mdf mg mhr mh min mi mk ml mn mo mrj mr ms mt mus mwl
my myv mzn nah nap na nds_nl nds ne new ng nl nn no nov nrm nso nv ny oc olo om or os pag pam pap pa pcd pdc pfl pih pi
pl pms pnb pnt ps pt qu rm rmy rn roa_rup roa_tara ro rue ru rw sah sa scn sco sc sd se sg sh simple si sk sl sm sn so
sq srn sr ss stq st su sv sw szl ta tcy tet te tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm ug uk ur uz vec vep
ve vi vls vo war wa wo wuu xal xh xmf yi yo za zea zh_classical zh_min_nan zh zh_yue zu
"""
_ALIGNED = "ar bg ca cs da de el en es et fi fr he hr hu id it mk nl no pl pt ro ru sk sl sv tr uk vi"

FASTTEXT = (
    "crawl-300d-2M.vec", "wiki-news-300d-1M-subword.vec", "wiki-news-300d-1M.vec",
    *(f"wiki.{code}.vec" for code in _WIKIPEDIAS.split()),
    *(f"wiki.multi.{code}.vec" for code in _ALIGNED.split()),
)  # fmt: skip
