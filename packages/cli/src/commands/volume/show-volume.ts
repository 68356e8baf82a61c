import {
  ExplainVolumeResponse,
  GetVolumeResponse,
  GetVolumeStatsResponse,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, tableText } from "../../frame/tables.ts";
import { ago, ahead } from "../../words/moment.ts";
import { claimStates } from "../claim/claim-words.ts";
import { blockedDetails, callText, degradedText, lastErrorText } from "../resource-words.ts";
import { usageWords, volumeDetails, volumeName, volumeNames } from "./volume-words.ts";

export const volumeArg = { name: "volume", help: "the volume's id", completes: "volume" } as const;

export const statusVolume: Command = {
  path: ["volume", "status"],
  summary: "show a volume",
  args: [volumeArg],
  options: [oneOption],
  examples: [{ line: "holdfast volume status data", says: "its record, in full" }],
  async run({ clients, settings, out, io }, input) {
    const answer = await clients.volumes.getVolume({ namespace: settings.namespace, id: input.arg("volume") });
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetVolumeResponse", GetVolumeResponse, answer),
      names: volumeNames(answer.volume),
      people: () => (answer.volume === undefined ? "" : detailsText(volumeDetails(answer.volume, io.now()))),
    });
  },
};

export const explainVolume: Command = {
  path: ["volume", "explain"],
  summary: "say how a volume stands, what it waits for and what to do",
  args: [volumeArg],
  options: [oneOption],
  examples: [{ line: "holdfast volume explain data", says: "why does it not move?" }],
  async run({ clients, settings, out, io }, input) {
    const ref = { namespace: settings.namespace, id: input.arg("volume") };
    const answer = await clients.volumes.explainVolume(ref);
    const now = io.now();
    answerOne(out, input, {
      answer: shown("holdfast.v1.ExplainVolumeResponse", ExplainVolumeResponse, answer),
      names: [ref.id],
      people: () =>
        [
          `${out.bold(volumeName(ref))}\n`,
          ...answer.findings.map((line) => `  ${line}\n`),
          ...answer.claims.map((claim) =>
            [
              `\nclaim ${claim.workload}/${claim.alias} on ${claim.node}: ${claimStates.of(claim.state)}\n`,
              detailsText([
                ["  Step", claim.step],
                ["  Waits for", claim.waitingFor],
                ["  Call", callText(claim.call, now)],
                ["  Holder", claim.holder],
                ["  Attempts", claim.attempts === 0 ? "" : String(claim.attempts)],
                ["  Next try", ahead(claim.nextTry, now)],
                ["  Degraded", degradedText(claim, now)],
                ["  Last error", lastErrorText(claim.lastError)],
                ...blockedDetails(claim.blocked, now).map(([label, value]) => [`  ${label}`, value] as const),
                ["  Trace", claim.traceId],
              ]),
            ].join(""),
          ),
          ...(answer.nextActions.length === 0
            ? []
            : ["\nwhat to do:\n", ...answer.nextActions.map((line) => `  ${line}\n`)]),
        ].join(""),
    });
  },
};

export const statsVolume: Command = {
  path: ["volume", "stats"],
  summary: "show how full a volume is, on each node where it is mounted",
  args: [volumeArg],
  options: [{ flags: "--node <node>", help: "only on this node", completes: "node" }],
  examples: [{ line: "holdfast volume stats data", says: "bytes and inodes, used and in all" }],
  async run({ clients, settings, out, io }, input) {
    const ref = { namespace: settings.namespace, id: input.arg("volume"), node: input.text("node") ?? "" };
    const answer = await clients.volumes.getVolumeStats(ref);
    out.answer(shown("holdfast.v1.GetVolumeStatsResponse", GetVolumeStatsResponse, answer), () =>
      answer.nodes.length === 0
        ? "it is not mounted anywhere\n"
        : tableText(
            [
              { title: "NODE", of: ({ node }) => node },
              { title: "BYTES", of: ({ usage }) => usageWords(usage, "bytes") },
              { title: "INODES", of: ({ usage }) => usageWords(usage, "inodes") },
              {
                title: "CONDITION",
                of: ({ condition, error }) =>
                  error !== undefined
                    ? lastErrorText(error)
                    : condition === undefined
                      ? "-"
                      : `${condition.abnormal ? "abnormal" : "normal"} ${condition.message}`.trim(),
              },
              { title: "MEASURED", of: ({ measuredAt }) => ago(measuredAt, io.now()) },
            ],
            answer.nodes,
          ),
    );
  },
};
