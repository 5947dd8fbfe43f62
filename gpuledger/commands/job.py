"""``gpuledger job``: one job's efficiency report, from what is published and the samples behind it."""

from __future__ import annotations

import argparse
import json
import shutil

from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the job and --json."""
    parser.add_argument("job", metavar="ID", help="Slurm's job id, namespace/pod, or a name of an allocations file")
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger job 49900",
        "gpuledger job nlp-train/bert-0 --json",
        "gpuledger job hpc:49900                 of two clusters' jobs with one id",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the job's facts and print them."""
    from pipelines.job.reading import job_report

    config = options.load_config(arguments)
    report = job_report(config, arguments.job)
    if arguments.json:
        print(json.dumps(report.json(), indent=2))
        return 0
    from gpuledger.job_summary import render

    width = shutil.get_terminal_size((options.FALLBACK_WIDTH, 24)).columns
    print(render(report, config.timezone, width=width))
    return 0
