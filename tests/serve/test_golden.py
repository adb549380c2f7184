"""Golden bytes of batches: the same pixels in the same order on every machine, with every Pillow and NumPy.

The pictures are written out here, so that no encoder can change them.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

import headrace
from headrace.transforms import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize

PICTURES = {
    "a/0.jpg": (
        "|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcL"
        "cU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;LyPAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<"
        "*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP7yuvx0TBQK5di}c0sq7R7ytkR0RaF20000000000000351p"
        ")*A!~h%+009L70RaF20000000000009C61Q8)IBLBny7y$tQ0|5X40000000000000951O);A!~hx*00IL60"
        "RR91000000000000IF6ArUeE+5ij#0RRFK0}%i}0Ah<VrAwG=Al=2r`Vvn`(z;ELvT$acFE&9|ADGal-kHxj"
        "3XR4IYiTPzINo;@?P63R0_=mggIL^xqgNvIt<5ss^f0b4<Lr%NXodInMyds=h3c>0qcmX~pO8^=vM^P9CS<o"
        "{|Je"
    ),
    "b/1.jpg": (
        "|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcL"
        "cU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;LyPAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<"
        "*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP7yuvx0U-ba5di}c0sq7R7XSeP0RaF20000000000000950R"
        ";cV02~ki0{{X80RR9100000000000RjUd5kXO5|HJ?n0RaI40RR91000000000000RO90RO}Q7ZCvg0RaF20"
        "000000000000310t5fr01N{G00I#M5dc2`=&Zj(teP=fbC_>0T!DF4r3Gm_u&VTMN)gosRM@#A)Xs@)keQ{e"
        "nCH>*S$b;!*#"
    ),
    "a/2.jpg": (
        "|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcL"
        "cU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;LyPAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<"
        "*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP7yuvx0U`hb5di}c0sq7R7ytnQ0RaI30000000000000F51O"
        "Wp7!~h%+00IL60RaI30000000000009C61Q8)3G5^E>76AbP0RR910000000000000650sq7R8W8{k00RL40"
        "000000000000010s{mQA^+L{3<CiG0ucid06zdarP&JPhk^O4>s}3JuaPCOny<tvjvm_iF=#j2;$fPn`ewej"
        "Uud=;4&$fPEeNQ@h`mZd%4XMMNE=1HY=}zQMnmxb*#"
    ),
    "b/3.jpg": (
        "|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcL"
        "cU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;LyPAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<"
        "*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP7yuvx0TBQK5di}c0sq7R7XSeP0RaF20000000000000970s"
        ";TT038qj0{{X80RaF200000000000RsXN1TjG&QUAmM836zS0|5X40000000000000C900IL6|HJ?r5dZ@L0"
        "0RL40000000000000340ud4+6aU%(3<CiG0ucid06zem8n@^_%#w(Tk6o5h7~*Llt40$zoTEt-WxSYXCXl~+"
        "^m$3Y0eXi|DHJI^7g<J|qDCBl4fEi-);m5n-$kC%0`JQ&mlsKV1#D~Igl{;d*%pB-V4Ts{v3B;`7FZ-<x|f="
        "4|Je"
    ),
    "a/4.jpg": (
        "|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcL"
        "cU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;LyPAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<"
        "*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP7yuvx0U-ba5di}c0sq7R82|wQ0s{a50000000000000F51O"
        "WmA|HJ?t5C8%L0RaF50000000000000330}%ugAwgmP!~hrp0RRI50000000000000001ONg91^>hV8xa5k0"
        "s{d60000000000000020Rs^sF(Uuk01N{G00I#M5dc2`*Q4yHp|T}OqiQ2U9F_hFMjm2S*JgHfC!;=2RYCe1"
        "i-i+hVMRG>#F=V%q8+*&w!qgtWTHDEb2w447*R?VBR9_$9QJ=e`p5s-"
    ),
}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    for name, text in PICTURES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(base64.b85decode(text))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    return tmp_path / "out"


def digest(loader: headrace.Loader) -> str:
    total = hashlib.sha256()
    for _ in range(10):
        for images, labels in loader:
            total.update(images.tobytes() + labels.astype("<i8").tobytes())
    return total.hexdigest()


def test_training_batches_are_these_bytes(packed: Path) -> None:
    steps = [RandomResizedCrop(16), RandomHorizontalFlip()]
    loader = headrace.Loader(packed, 2, shuffle=True, transform=steps, seed=7)
    assert digest(loader) == "8bde47b63d5f7790b47362c673c84e56448d1200a46df90f2692c88cf2899a41"


def test_validation_batches_are_these_bytes(packed: Path) -> None:
    loader = headrace.Loader(packed, 2, transform=[Resize(20), CenterCrop(16)])
    assert digest(loader) == "1b5d4b840493bc9ef020731554b4ba7f091ccc0017ac081437c8f0323a234c13"
