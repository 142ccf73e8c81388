"""The event simulation against queueing theory, against a step-by-step model of another make (simpy), and against the closed form."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import simpy
from shapes import bundled, plan

from llmcalc import api
from llmcalc.cli import main
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import serving, step, terms
from llmcalc.estimate.quantiles import Quantiles
from llmcalc.estimate.served import served
from llmcalc.estimate.service import Service
from llmcalc.estimate.serving import Ideal, Piecewise, Rates
from llmcalc.estimate.simulate import Outcome, simulate
from llmcalc.estimate.steady import steady
from llmcalc.formulas import queueing
from llmcalc.plan import Workload
from llmcalc.traffic import Kind, Request, Traffic, read_trace, totals

LLAMA = "meta-llama/Meta-Llama-3-8B"


def machine(
    step_s: float = 0.01,
    prompt_token_s: float = 1e-6,
    kv: Callable[[float], float] = lambda ctx: 0.0,
    held: Callable[[float], float] = lambda ctx: float(ctx),
    memory: float = 1e12,
    edges: tuple[int, ...] = (0,),
    decode_token_s: float = 0.0,
) -> Rates:
    """A replica of textbook simplicity: weights take `step_s` per step, prompt tokens `prompt_token_s` each on top of nothing."""
    return Ideal(
        weights_s=[step_s] * 3,
        compute_s=[0.0, decode_token_s, 2 * decode_token_s],
        talk_s=[0.0] * 3,
        prompt_token_s=prompt_token_s,
        head_s=0.0,
        kv_s=Piecewise(kv, edges),
        held_bytes=Piecewise(held, edges),
        attention_s=Piecewise(lambda ctx: 0.0, edges, quadratic=True),
        budget_bytes=memory,
        block_tokens=1,
    )


# ---- quantiles ----------------------------------------------------------------------------------------------------


def test_quantiles_of_a_stream() -> None:
    chance = random.Random(3)
    values = [chance.lognormvariate(-3, 1) for _ in range(20000)]
    found = Quantiles()
    for value in values:
        found.add(value)
    for share in (0.5, 0.95, 0.99):
        assert found.at(share) == pytest.approx(float(numpy.quantile(values, share, method="inverted_cdf")), rel=2e-3)
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert found.at(1) == pytest.approx(max(values), rel=2e-3)
    assert Quantiles().at(0.5) is None


# ---- queueing theory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "p95"), [(0.7, 1.02), *(pytest.param(*each, marks=pytest.mark.nightly) for each in ((0.5, 0.610), (0.8, 1.51)))]
)
def test_uniform_prompts_are_an_m_d_1_queue(load: float, p95: float) -> None:
    """Prompts of 0.2 s, one answer token: TTFT is Pollaczek and Khinchine's, and its p95 the theory's."""
    traffic = Traffic(load / 0.2, (Kind(1000, 1),))
    found = simulate(machine(0.0, 0.2 / 1000), traffic.requests(5), max_batch=10**6, chunk=1000, count=150_000, warmup=1000)
    wait = queueing.mean_wait_s(load / 0.2, 0.04, load)
    assert found.ttft.mean is not None
    assert found.ttft.mean - 0.2 == pytest.approx(wait, rel=0.03)
    assert found.ttft.at(0.95) == pytest.approx(p95, rel=0.03)
    assert found.utilization == pytest.approx(load, rel=0.01)


@pytest.mark.parametrize(("servers", "offered"), [(4, 3), *(pytest.param(*each, marks=pytest.mark.nightly) for each in ((2, 1.2), (8, 6)))])
def test_slots_are_the_servers_of_an_m_m_c_queue(servers: int, offered: float) -> None:
    """`servers` sequences at a time, answers of exponential length, steps of a constant time: Erlang's waiting time."""
    mean = 2000
    rate = offered / (mean * 1e-3)
    chance = random.Random(11)

    def arrivals() -> Iterator[Request]:
        now = 0.0
        while True:
            now += chance.expovariate(rate)
            # The step of the prompt is one of the answer's; prompts that are all cached join at once.
            yield Request(now, 1, 1 + max(1, round(chance.expovariate(1 / mean))), 1)

    found = simulate(machine(1e-3, 0.0), arrivals(), max_batch=servers, chunk=0, count=120_000, warmup=2000)
    wait = queueing.shared_queue_wait_s(queueing.erlang_c(servers, offered), servers, offered, mean * 1e-3)
    assert found.ttft.mean == pytest.approx(wait, rel=0.03)
    assert found.mean_batch == pytest.approx(offered, rel=0.02)
    assert found.tpot.mean == pytest.approx(1e-3, rel=1e-9)


# ---- a step-by-step model -----------------------------------------------------------------------------------------


class Steps:
    """The same policy, step by step in simpy: every step adds up the caches of every sequence anew."""

    def __init__(self, rates: Rates, requests: list[Request], max_batch: int, chunk: int) -> None:
        self.rates, self.max_batch, self.chunk = rates, max_batch, chunk
        self.env = simpy.Environment()
        self.waiting: list[dict[str, float]] = []
        self.active: list[dict[str, float]] = []  # in the order in which they started
        self.ttft: list[float] = []
        self.tpot: list[float] = []
        self.e2e: list[float] = []
        self.preemptions = 0
        self.more = self.env.event()
        self.env.process(self.arrive(requests))
        self.env.process(self.serve())
        self.env.run()

    def arrive(self, requests: list[Request]) -> Iterator[simpy.Event]:
        for request in requests:
            yield self.env.timeout(max(0.0, request.arrival_s - self.env.now))
            self.waiting.append(
                {
                    "at": request.arrival_s,
                    "prompt": request.prompt,
                    "output": request.output,
                    "cached": request.cached,
                    "target": request.prompt,
                    "read": request.cached,
                    "made": 0,
                    "first": -1.0,
                }
            )
            if not self.more.triggered:
                self.more.succeed()

    def held(self) -> float:
        return sum(self.rates.held_bytes(s["target"] if s["read"] < s["target"] else s["prompt"] + s["made"] - 1) for s in self.active)

    def growth(self) -> float:
        return sum(self.rates.held_bytes.slope(s["prompt"] + s["made"] - 1) for s in self.active if s["read"] >= s["target"])

    def serve(self) -> Iterator[simpy.Event]:
        while True:
            while self.waiting and len(self.active) < self.max_batch:
                need = self.rates.held_bytes(self.waiting[0]["target"])
                if self.held() + need + self.growth() > self.rates.budget_bytes:
                    break
                self.active.append(self.waiting.pop(0))
            if self.held() + self.growth() > self.rates.budget_bytes:
                reading = [s for s in self.active if s["read"] < s["target"]]
                last = reading[-1] if reading else self.joined[-1]
                self.active.remove(last)
                if not reading:
                    self.joined.remove(last)
                    last["target"] = last["prompt"] + last["made"]
                last["read"] = min(last["cached"], last["target"] - 1)
                self.waiting.insert(0, last)
                self.preemptions += 1
                continue
            decoding = [s for s in self.active if s["read"] >= s["target"]]
            left, tokens, ends, attention, done = self.chunk, 0, 0, 0.0, []
            for s in [s for s in self.active if s["read"] < s["target"]]:
                take = min(left, s["target"] - s["read"])
                if take <= 0:
                    break
                attention += self.rates.attended_s(s["read"], s["read"] + take)
                s["read"] += take
                tokens += take
                left -= take
                if s["read"] == s["target"]:
                    done.append(s)
                    ends += 1
            caches = sum(self.rates.kv_s(s["prompt"] + s["made"] - 1) for s in decoding)
            if tokens:
                yield self.env.timeout(self.rates.chunk_s(len(decoding), tokens, ends, attention) + caches)
            elif decoding:
                yield self.env.timeout(self.rates.fixed_s(len(decoding)) + caches)
            else:
                self.more = self.env.event()
                yield self.more
                continue
            for s in decoding + done:
                s["made"] += 1
                if s["first"] < 0:
                    s["first"] = self.env.now
            for s in done:
                self.joined.append(s)
            for s in [s for s in decoding + done if s["made"] >= s["output"]]:
                self.active.remove(s)
                self.joined.remove(s)
                self.ttft.append(s["first"] - s["at"])
                self.e2e.append(self.env.now - s["at"])
                if s["output"] > 1:
                    self.tpot.append((self.env.now - s["first"]) / (s["output"] - 1))

    @property
    def joined(self) -> list[dict[str, float]]:
        if not hasattr(self, "_joined"):
            self._joined: list[dict[str, float]] = []
        return self._joined


def both(rates: Rates, kind: Kind, rate: float, count: int, max_batch: int, chunk: int, seed: int = 1) -> tuple[Outcome, Steps]:
    requests = list(itertools.islice(Traffic(rate, (kind,)).requests(seed), count))
    return simulate(rates, requests, max_batch=max_batch, chunk=chunk), Steps(rates, requests, max_batch, chunk)


def agree(ours: Outcome, steps: Steps) -> None:
    assert ours.requests == len(steps.e2e)
    assert ours.preemptions == steps.preemptions
    for name in ("ttft", "tpot", "e2e"):
        values = getattr(steps, name)
        assert getattr(ours, name).mean == pytest.approx(sum(values) / len(values), rel=1e-6)
        assert getattr(ours, name).at(0.95) == pytest.approx(float(numpy.quantile(values, 0.95, method="inverted_cdf")), rel=3e-3)


@pytest.mark.parametrize("chunk", [256, 2048])
@pytest.mark.parametrize("rate", [2.0, 12.0])
def test_jumping_changes_nothing(chunk: int, rate: float) -> None:
    """Llama-3-8B on an H100, lengths and arrivals at random."""
    model = bundled(LLAMA)
    rates = serving.rates(model, plan(model))
    ours, steps = both(rates, Kind(900, 60, 100, prompt_cv=0.8, output_cv=0.8), rate, 300, 64, chunk)
    agree(ours, steps)
    assert ours.steps > ours.events


def test_a_full_batch_and_a_full_memory() -> None:
    """Sequences of 100 to some 300 tokens in a memory of 1,000: most starts are regretted."""
    rates = machine(0.01, 1e-5, kv=lambda ctx: ctx * 1e-6, memory=1000.0)
    ours, steps = both(rates, Kind(100, 120, 40, output_cv=0.4), 4.0, 250, 12, 512)  # 40 of each prompt are in a prefix cache
    agree(ours, steps)
    assert ours.preemptions > 20


@pytest.mark.parametrize("chunk", [1, 7])
def test_equal_steps_of_a_long_prompt_are_one_event(chunk: int) -> None:
    """Costs of a prompt's chunks that grow, reads that overtake attention, a window in between; and sequences that decode meanwhile."""
    rates = machine(0.01, 1e-5, kv=lambda ctx: min(ctx, 300) * 2e-6, edges=(0, 300))
    rates = replace(
        rates, attention_s=Piecewise(lambda ctx: min(ctx, 300) ** 2 * 5e-9 + max(0, ctx - 300) * 3e-6, (0, 300), quadratic=True)
    )
    ours, steps = both(rates, Kind(400, 30, prompt_cv=0.5, output_cv=0.5), 0.7 * chunk, 60, 12, chunk)
    agree(ours, steps)
    assert ours.events < ours.steps / 5


def test_decoded_tokens_take_their_room() -> None:
    """60 sequences decode when a prompt of 100 comes: of a room of 100 tokens that they share, 40 a step are left for it."""
    many = [Request(0.0, 1, 500, 1)] * 60
    for shared, steps in ((False, 1), (True, 3)):
        found = simulate(machine(0.01, 0.0), [*many, Request(0.055, 100, 1)], max_batch=100, chunk=100, shared=shared)
        assert found.ttft.at(1) == pytest.approx(0.06 - 0.055 + 0.01 * steps, rel=0.01)


def test_a_prefix_cache_keeps_what_nobody_took() -> None:
    """Two sequences fill the memory; the second gives way and comes back when the first ends: of its tokens, what the first took since
    is read again."""
    rates = machine(0.01, 0.001, memory=220.0)
    two = [Request(0.0, 100, 31), Request(0.0, 100, 31)]
    plain, kept = (simulate(rates, two, max_batch=4, chunk=1000, shared=shared) for shared in (False, True))
    assert plain.preemptions == kept.preemptions == 1
    # Both start at 100 tokens and meet the limit at 110; the first needs 20 more steps, and 111 or 21 tokens are read.
    assert plain.seconds - kept.seconds == pytest.approx(0.001 * (111 - 21), abs=0.002)


def test_groups_read_their_own_prompts() -> None:
    """Two prompts of 100 at once: one group reads both, two groups read one each, at the same time."""
    two = [Request(0.0, 100, 1), Request(0.0, 100, 1)]
    one, both_ = (simulate(replace(machine(0.0, 0.001), groups=groups), two, max_batch=4, chunk=1000) for groups in (1, 2))
    assert (one.seconds, both_.seconds) == pytest.approx((0.2, 0.1))


def test_a_closed_loop() -> None:
    """Four users of whom each asks again: every step of 10 ms writes four tokens, the first of an answer among them."""
    kind = Kind(50, 20)
    found = simulate(machine(0.01, 0.0), Traffic(4, (kind,), users=4).requests(1), max_batch=8, chunk=500, count=200, warmup=12, users=4)
    assert found.tokens_per_s == pytest.approx(400, rel=0.01)
    assert (found.tpot.at(0.5), found.itl.at(0.99), found.ttft.at(0.5)) == pytest.approx((0.01, 0.01, 0.01), rel=0.003)
    assert found.requests == 200 and found.peak_in_flight == 4


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 12))])
def test_a_closed_loop_is_what_decode_says(seed: int) -> None:
    """`decode` with a prompt and an answer, and the mean of a closed loop of as many users: within 10%."""
    chance = random.Random(seed)
    for number in range(6):
        name, device, tp = chance.choice(((LLAMA, "h100-sxm", 1), ("Qwen/Qwen3-30B-A3B", "h100-sxm", 2), ("Qwen/Qwen3-32B", "h200-sxm", 2)))
        users, prompt, output = int(2 ** chance.uniform(0, 7)), int(2 ** chance.uniform(8, 12)), int(2 ** chance.uniform(7, 10))
        model = bundled(name)
        layout = api.deploy(model, device, tp=tp, engine="vllm")
        service = Service(Traffic(users, (Kind(prompt, output),), users=users), simulated=max(100, 3 * users), seed=number)
        found = served(model, layout, service).answer.results
        busy = step.step(model, layout, Workload(prompt + output / 2, users, prompt, output), "expected").mid_s
        assert found.tpot_s == pytest.approx(busy, rel=0.1), (name, users, prompt, output)
        assert found.tokens_per_s == pytest.approx(found.mean_batch / found.tpot_s, rel=0.15)


def test_windows_bend_reads_and_memory() -> None:
    """Caches that stop growing at 150 tokens: an event of their own, and memory for more sequences."""
    rates = machine(0.01, 1e-5, kv=lambda ctx: min(ctx, 150) * 2e-6, held=lambda ctx: float(min(ctx, 150)), memory=900.0, edges=(0, 150))
    ours, steps = both(rates, Kind(100, 120, prompt_cv=0.3, output_cv=0.5), 3.0, 250, 12, 64)
    agree(ours, steps)


def test_every_token_is_written() -> None:
    requests = list(itertools.islice(Traffic(3.0, (Kind(200, 90, output_cv=1),)).requests(2), 400))
    found = simulate(machine(memory=1500.0), requests, max_batch=8, chunk=128)
    assert found.output_tokens == sum(request.output for request in requests)
    assert found.requests == 400


def test_a_request_that_fits_nowhere() -> None:
    for request in (Request(0, 2000, 10), Request(0, 900, 500)):
        with pytest.raises(LlmcalcError) as caught:
            simulate(machine(memory=1000.0), [request], max_batch=8, chunk=0)
        assert caught.value.code == "request-too-long"


def test_the_same_seed_gives_the_same_answer() -> None:
    def once(seed: int) -> float | None:
        return simulate(
            machine(), Traffic(5.0, (Kind(100, 50, output_cv=1),), 2.0).requests(seed), max_batch=32, chunk=512, count=500
        ).e2e.mean

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_memory_is_that_of_the_requests_in_flight() -> None:
    def peak(count: int) -> int:
        stream = Traffic(5.0, (Kind(500, 50),)).requests(1)
        tracemalloc.start()
        simulate(machine(), stream, max_batch=64, chunk=512, count=count)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(4000) < peak(2000) + 50_000  # by then what is tallied at once is full


# ---- the closed form ----------------------------------------------------------------------------------------------


def test_rates_are_the_estimators() -> None:
    """A step of the simulation is `decode`'s, a prompt alone is `prefill`'s: dense, mixture, latent, windows."""
    for name, device, tp in (
        (LLAMA, "h100-sxm", 1),
        ("Qwen/Qwen3-30B-A3B", "h100-sxm", 2),
        ("openai/gpt-oss-20b", "h100-sxm", 1),
        ("deepseek-ai/DeepSeek-V3", "h200-sxm", 16),
    ):
        model = bundled(name)
        layout = plan(model, device, "fp8" if "DeepSeek" in name else "auto", tp=tp)
        rates = serving.rates(model, layout)
        for batch, ctx in ((1, 100), (7, 2000), (60, 9000), (300, 128)):
            alone = step.step(model, layout, Workload(ctx, batch), "napkin").mid_s
            assert rates.fixed_s(batch) + batch * rates.kv_s(ctx) == pytest.approx(alone, rel=1e-9)
        for prompt, cached in ((700, 0), (6000, 0), (6000, 4000)):
            alone = step.prompt_time(terms.prompt_terms(model, layout, prompt, cached)).value
            assert rates.prompt_s(prompt, cached, 0) == pytest.approx(alone, rel=2e-3)


DENSE = (("meta-llama/Meta-Llama-3-8B", "h100-sxm"), ("Qwen/Qwen3-32B", "h200-sxm"))
MIXTURES = (("Qwen/Qwen3-30B-A3B", "h100-sxm"), ("openai/gpt-oss-20b", "h100-sxm"), ("mistralai/Mixtral-8x7B-Instruct-v0.1", "h200-sxm"))


@pytest.mark.parametrize("models", [DENSE, MIXTURES])
@pytest.mark.parametrize(("seed", "workloads"), [(0, 3), *(pytest.param(seed, 10, marks=pytest.mark.nightly) for seed in range(4))])
def test_random_workloads(models: tuple[tuple[str, str], ...], seed: int, workloads: int) -> None:
    """Closed form and simulation within 5% on TPOT and throughput, at loads up to 0.7; all but one of ten, and none beyond 8%.

    Models, lengths and chunks at random. 20,000 requests leave a TPOT of long prompts and few sequences uncertain by some 2%.
    """
    chance = random.Random(seed)
    beyond = 0
    for number in range(workloads):
        name, device = chance.choice(models)
        model = bundled(name)
        rates = serving.rates(model, plan(model, device))
        kind_cv = chance.choice([0, 0, 0.5])
        kind = Kind(int(2 ** chance.uniform(6, 13.3)), int(2 ** chance.uniform(5, 9)), prompt_cv=kind_cv / 2, output_cv=kind_cv)
        chunk, load = chance.choice([512, 2048, 8192]), chance.uniform(0.1, 0.7)
        profile = serving.Profile.of(Traffic(1.0, (kind,)).sample())
        most = min(256, rates.capacity(profile.longest))
        rate = load * serving.highest(rates, profile, most, chunk)[0].value
        closed = steady(rates, profile, rate, most, chunk)
        found = simulate(rates, Traffic(rate, (kind,)).requests(number), max_batch=most, chunk=chunk, count=20_000, warmup=1000)
        assert closed.load == pytest.approx(load)
        assert found.token_tpot_s is not None
        assert closed.tpot_s == pytest.approx(found.token_tpot_s, rel=0.08), (name, kind, chunk, load)
        beyond += closed.tpot_s != pytest.approx(found.token_tpot_s, rel=0.05)
        assert rate * profile.output == pytest.approx(found.tokens_per_s, rel=0.05), (name, kind, chunk, load)
    assert beyond <= 1


def test_beyond_saturation() -> None:
    model = bundled(LLAMA)
    rates = serving.rates(model, plan(model))
    profile = serving.Profile.of([Request(0, 1000, 200)])
    highest = serving.highest(rates, profile, 64, 2048)[0].value
    assert steady(rates, profile, highest * 1.05, 64, 2048).tpot_s is None
    found = simulate(rates, Traffic(highest * 1.5, (Kind(1000, 200),)).requests(), max_batch=64, chunk=2048, count=3000, warmup=500)
    # What is served is the highest rate, whatever arrives.
    assert found.tokens_per_s == pytest.approx(highest * 200, rel=0.03)


# ---- traces -------------------------------------------------------------------------------------------------------

GOOD = "arrival_s,prompt_tokens,output_tokens\n1.5,100,10\n2.0,200,20\n4.5,300,30\n"
TRACES = {
    "own": GOOD,
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n1.5,100,10\n2.0,200,20\n4.5,300,30\n",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5000000,100,10\n2023-11-16 18:15:47.0000000,200,20\n2023-11-16 18:15:49.5000000,300,30\n",
    "mooncake": "".join(
        json.dumps({"timestamp": t, "input_length": p, "output_length": o, "hash_ids": [1]}) + "\n"
        for t, p, o in ((0, 100, 10), (500, 200, 20), (3000, 300, 30))
    ),
    "burst": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,100,10,110,x\n5.5,GPT-4,200,20,220,x\n8,GPT-4,300,30,330,x\n",
    "blank lines, a mark and Windows": "\ufeff" + GOOD.replace("\n", "\r\n") + "\r\n",
}


@pytest.mark.parametrize("name", TRACES)
def test_public_traces(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(TRACES[name], encoding="utf-8", newline="")
    assert list(read_trace(str(path))) == [Request(0, 100, 10), Request(0.5, 200, 20), Request(3.0, 300, 30)]
    assert totals(str(path))[:4] == (3, 3.0, 600, 60)


HEAD = "arrival_s,prompt_tokens,output_tokens\n"
BAD = {
    "empty": ("", "no requests"),
    "header alone": (HEAD, "no requests"),
    "blank lines first": ("\n\n" + HEAD + "1,10,10\nx,10,10\n", "line 5, column arrival_s"),
    "blank lines, then json": ('\n\n{"arrival_s": -1, "prompt_tokens": 5, "output_tokens": 5}\n', "line 3, column arrival_s"),
    "no column": ("arrival_s,prompt\n1,2\n", "no column output_tokens"),
    "negative time": (HEAD + "1,10,10\n-2,10,10\n", "line 3, column arrival_s"),
    "unsorted": (HEAD + "1,10,10\n5,10,10\n4,10,10\n", "line 4, column arrival_s"),
    "nan": (HEAD + "1,nan,10\n", "line 2, column prompt_tokens"),
    "infinity": (HEAD + "inf,10,10\n", "line 2, column arrival_s"),
    "a word": (HEAD + "1,10,many\n", "line 2, column output_tokens"),
    "an empty field": (HEAD + "1,,10\n", "line 2, column prompt_tokens"),
    "a short line": (HEAD + "1,10,10\n2,10\n", "line 3, column output_tokens"),
    "half a token": (HEAD + "1,10.5,10\n", "line 2, column prompt_tokens"),
    "nothing written": (HEAD + "1,10,0\n", "line 2, column output_tokens"),
    "astronomical": (HEAD + "1,1e300,10\n", "line 2, column prompt_tokens"),
    "digits without end": (HEAD + "1," + "9" * 5000 + ",10\n", "line 2, column prompt_tokens"),
    "broken quotes": (HEAD + '1,"10,10\n', "is not CSV"),
    "json that is none": ('{"arrival_s": 1, "prompt_tokens": 5,\n', "line 1"),
    "json of another shape": ('{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 5}\n[1]\n', "line 2"),
    "json without a field": (
        '{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 5}\n{"arrival_s": 1}\n',
        "line 2, column prompt_tokens",
    ),
    "json nan": ('{"arrival_s": NaN, "prompt_tokens": 5, "output_tokens": 5}\n', "line 1, column arrival_s"),
    "json true": ('{"arrival_s": true, "prompt_tokens": 5, "output_tokens": 5}\n', "line 1, column arrival_s"),
    "json list for a number": ('{"arrival_s": 1, "prompt_tokens": [5], "output_tokens": 5}\n', "line 1, column prompt_tokens"),
    "deep json": ("{" + '"a":{' * 3000 + "\n", "line 1"),
    "one endless line": (HEAD + "1" * (2**20 + 10), "line 2 has over"),
    "all at once": (HEAD + "1,10,10\n1,10,10\n", "at the same time"),
    "cached beyond the prompt": (HEAD.replace("\n", ",cached_tokens\n") + "1,10,10,10\n", "line 2, column cached_tokens"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(BAD[name][0], encoding="utf-8")
    assert main(["simulate", "-m", LLAMA, "-d", "h100-sxm", "--trace", str(path)]) == 1
    err = capsys.readouterr().err
    assert BAD[name][1] in err
    assert err.count("\n") == 2 and "Hint: " in err and len(err) < 1000


def test_bytes_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bytes.csv"
    path.write_bytes(HEAD.encode() + b"1,\xff\xfe,2\n")
    for bad, word in ((str(path), "line 2 is not UTF-8"), (str(tmp_path), "cannot read"), (str(tmp_path / "none"), "cannot read")):
        assert main(["simulate", "-m", LLAMA, "-d", "h100-sxm", "--trace", bad]) == 1
        assert word in capsys.readouterr().err


def test_a_trace_is_read_line_by_line(tmp_path: Path) -> None:
    """A fault in the last line of a long trace is found there; up to it only a line is held."""
    path = tmp_path / "long.csv"
    with path.open("w") as stream:
        stream.write(HEAD)
        stream.writelines(f"{n / 10},100,10\n" for n in range(30000))
        stream.write("x,1,1\n")
    tracemalloc.start()
    with pytest.raises(LlmcalcError, match="line 30002, column arrival_s"):
        for _ in read_trace(str(path)):
            pass
    assert tracemalloc.get_traced_memory()[1] < 500_000
    tracemalloc.stop()


def test_cached_tokens_are_a_share_of_each_prompt() -> None:
    requests = itertools.islice(Traffic(1.0, (Kind(1000, 10, 400, prompt_cv=1),)).requests(), 50)
    assert all(request.cached == round(request.prompt * 0.4) for request in requests)


def test_random_traffic_has_the_asked_rate_and_lengths() -> None:
    for cv in (0, 0.5, 1, 2):
        some = list(itertools.islice(Traffic(4.0, (Kind(1000, 100, prompt_cv=1, output_cv=0.5),), cv).requests(3), 20000))
        assert some[-1].arrival_s == pytest.approx(20000 / 4, rel=0.03)
        gaps = numpy.diff([request.arrival_s for request in some])
        assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.05)
        assert sum(request.prompt for request in some) / 20000 == pytest.approx(1000, rel=0.03)
    sample = Traffic(4.0, (Kind(1000, 100, prompt_cv=1, output_cv=0.5),)).sample()
    assert sum(request.prompt for request in sample) / len(sample) == pytest.approx(1000, rel=0.01)
    assert sum(request.output for request in sample) / len(sample) == pytest.approx(100, rel=0.01)


# ---- the command --------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(GOOD)
    assert main(["simulate", "-m", LLAMA, "-d", "h100-sxm", "--trace", str(path), "--mfu", "1", "--mbu", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["requests"] == 3
    # Nobody meets anybody: each answer is decoded alone, about one pass over 16.06 GB per token.
    assert answer["results"]["tpot_p50_s"] == pytest.approx(16.0605e9 / 3.35e12, rel=0.005)
    assert [row["time"] for row in answer["rows"]] == ["TTFT", "TPOT", "between tokens", "whole request"]


def test_a_limit_that_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "simulate",
        "-m",
        LLAMA,
        "-d",
        "h100-sxm",
        "--rate",
        "50",
        "--prompt",
        "2000",
        "--output-tokens",
        "200",
        "-n",
        "300",
        "--check",
    ]
    assert main([*asked, "--max-ttft", "1s", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["results"]["violates"] == "ttft"


@pytest.mark.parametrize("engine", ["vllm", "trt-llm", "sglang"])
@pytest.mark.parametrize(("users", "prompt", "output"), [(8, 512, 128), (64, 2048, 256), (32, 8192, 512)])
def test_a_closed_loop_is_one_answer(engine: str, users: int, prompt: int, output: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate of a batch between others' prompts, and the simulation of as many users that ask again."""

    def tpot(*asked: str) -> float:
        shape = ("--prompt", str(prompt), "--output-tokens", str(output), "--method", "expected", "--json")
        assert main([asked[0], "-m", "Qwen/Qwen3-32B", "-d", "2x h200", "--engine", engine, *asked[1:], *shape]) == 0
        return float(json.loads(capsys.readouterr().out)["results"]["tpot_s"])

    assert tpot("decode", "-b", str(users)) == pytest.approx(tpot("simulate", "--concurrency", str(users), "-n", "200"), rel=0.1)
