"""Golden documents: texts that a tokenizer must always turn into the same ids.

A tokenizer's files do not say what its back-end does with them, and back-ends have changed tokens in silence. The
texts are chosen where they did: blanks, line ends, digits, composed characters, special tokens in a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from registry.core.canonical import Json

BEGIN = "<|begin|>"
END = "<|end|>"
PAD = "<|pad|>"
SPECIAL = (BEGIN, END, PAD)

TEXTS: dict[str, str] = {
    "empty": "",
    "ascii": "The quick brown fox jumps over the lazy dog.",
    "contraction": "It's what we'd said: they'll've gone, I'm sure.",
    "code": 'def total(values):\n    """Add them up."""\n    return sum(value for value in values if value >= 0)\n',
    "mathematics": "∀ε>0 ∃δ>0: |x−a|<δ ⇒ |f(x)−f(a)|<ε; ∑_{k=1}^{n} k² = n(n+1)(2n+1)/6",
    "digits": "3.14159265358979 0x1F600 1e-09 12345678901234567890 ½ ² ٣",
    "long blanks": "a" + " " * 257 + "b",
    "tabs": "\t\tif x:\t# comment\t\t\n",
    "line ends": "one\r\ntwo\rthree\n\n\nfour  \n",
    "leading and trailing blanks": "   spaced   ",
    "combining": "e\u0301 \u00e9 n\u0303 \u0915\u094d\u0937\u093f",
    "emoji": "\U0001f600 \U0001f469\u200d\U0001f52c \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e8\U0001f1ed",
    "chinese, japanese, korean": "天地玄黃，宇宙洪荒。日本語のテキスト、カタカナ。한국어 문장입니다.",
    "right to left": "שלום עולם — مرحبا بالعالم",
    "invisible": "zero\u200bwidth\u00a0no-break\ufeffmark\u2028line",
    "control": "\x00\x01\x1b[0m\x7f",
    "special tokens": f"{BEGIN}a{END} {PAD}<|unknown|>",
}


def golden(encode: Callable[[str], Sequence[int]], encode_document: Callable[[str], Sequence[int]]) -> Json:
    """The golden documents as ``{name, text, ids, document}``.

    ``ids`` are the text's alone, ``document`` what a token cache holds for it, with begin and end.
    """
    return [
        {"name": name, "text": text, "ids": list(encode(text)), "document": list(encode_document(text))}
        for name, text in TEXTS.items()
    ]
