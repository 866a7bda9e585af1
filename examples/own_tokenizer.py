"""Your own tokenizer: trains a byte-level BPE tokenizer and a small GRU on a few reviews, and explains what it reads.

`python examples/own_tokenizer.py` prints the relevance of the pieces of a review and of its words, then saves the model and
loads it again.
"""

import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn

import whence

GOOD = [
    "a wonderful film",
    "truly wonderful and moving 🙂",
    "i loved it",
    "a moving story",
    "wonderful acting",
    "loved the film",
]
BAD = ["a dreadful film", "truly dreadful and boring 😴", "i hated it", "a boring story", "dreadful acting", "hated the film"]


class Reader(nn.Module):
    """A GRU whose last state decides; it is told the lengths of the texts, so that batches may be padded."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.pieces, self.gru, self.out = nn.Embedding(rows, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 2)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The scores (B, 2) of ids (B, T)."""
        states = self.gru(self.pieces(ids))[0]  # (B, T, 16)
        return self.out(states[torch.arange(len(ids)), lengths - 1])


def trained_tokenizer() -> Tokenizer:
    """Pieces of words out of bytes, between two marks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*GOOD, *BAD], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return tokenizer


def trained_module(tokenizer: Tokenizer) -> Reader:
    """A reader that has learned the reviews."""
    module = Reader(tokenizer.get_vocab_size())
    texts = [torch.tensor(tokenizer.encode(text).ids) for text in (*GOOD, *BAD)]
    lengths = torch.tensor([len(each) for each in texts])
    ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=0)
    labels = torch.tensor([1] * len(GOOD) + [0] * len(BAD))
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(ids, lengths), labels).backward()
        optimiser.step()
    return module.eval()


def main() -> None:
    """Train, explain, save and load."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = trained_tokenizer()
    module = trained_module(tokenizer)
    pipeline = whence.Pipeline(module, tokenizer, None, ("bad", "good"), name="own")
    explanation = whence.explain(pipeline, "wonderful acting and a boring story 🙂")
    for token, relevance in zip(explanation.tokens, explanation.relevance, strict=True):
        print(f"{relevance:+.3f}  {token!r}")
    print(explanation.by_word())
    with tempfile.TemporaryDirectory() as folder:
        pipeline.save(Path(folder) / "own")
        again = whence.load(Path(folder) / "own", module=Reader(tokenizer.get_vocab_size()))
        same = whence.explain(again, explanation.text).relevance == explanation.relevance
        print("loaded again, the same relevance:", same)


if __name__ == "__main__":
    main()
