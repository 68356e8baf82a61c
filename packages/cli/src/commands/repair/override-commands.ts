import {
  AbandonClaimResponse,
  AdoptVolumeResponse,
  AssertDetachedResponse,
  ClearBarResponse,
  ForgetVolumeResponse,
  RemoveOrphanResponse,
  TakeOverResponse,
  VetResponse,
} from "@holdfast/shared/gen/holdfast/v1/repair";
import type { Command, Input } from "../../frame/command.ts";
import { shown } from "../../frame/output.ts";
import { usage } from "../option-words.ts";
import { accessModes, attachmentModes } from "../volume/volume-words.ts";
import { forgetController } from "./forget-controller.ts";
import { confirmOption, evidenceOption, outcomeText, reasonOption, verbFields } from "./repair-verb.ts";

const volumeArg = { name: "volume", help: "the volume's id", completes: "volume" } as const;

const abandonClaim: Command = {
  path: ["repair", "abandon-claim"],
  summary: "end a claim whose node cannot give its proof",
  description:
    "Says what it would mean; with --confirm it is done. If the workload still runs, two writers are possible.",
  args: [
    volumeArg,
    { name: "workload", help: "the workload's id", completes: "workload" },
    { name: "uid", help: "the claim's uid: this life and no other" },
    { name: "alias", help: "where it is not the volume's id", optional: true },
  ],
  options: [evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast repair abandon-claim data web-1 0b54… --evidence "vm destroyed, ticket 4711" --reason "host lost"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const volume = input.arg("volume");
    const answer = await context.clients.repair.abandonClaim({
      namespace: context.settings.namespace,
      volume,
      workload: input.arg("workload"),
      alias: input.optionalArg("alias") ?? volume,
      claimUid: input.arg("uid"),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.AbandonClaimResponse", AbandonClaimResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const assertDetached: Command = {
  path: ["repair", "assert-detached"],
  summary: "state that the backend shows a volume as detached from a node",
  description:
    "For plugins that answer NOT_FOUND or cannot tell. If it is attached after all, the attachment is leaked.",
  args: [volumeArg, { name: "node", help: "the node's name", completes: "node" }],
  options: [evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast repair assert-detached data node-a --evidence "console shows it free" --reason "instance deleted"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const answer = await context.clients.repair.assertDetached({
      namespace: context.settings.namespace,
      volume: input.arg("volume"),
      node: input.arg("node"),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.AssertDetachedResponse", AssertDetachedResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const kinds = ["volume", "snapshot", "group"] as const;

const calledArg = { name: "id", help: "the volume's id, or the snapshot's or group's" } as const;
const kindOption = {
  flags: "--kind <kind>",
  help: "volume, snapshot or group (default volume)",
  completes: kinds,
} as const;

/** The record that the line names, by its kind. */
const calledFields = (input: Input) => {
  const kind = kinds.find((word) => word === (input.text("kind") ?? "volume"));
  if (kind === undefined) throw usage("--kind is volume, snapshot or group");
  return { [kind]: input.arg("id") };
};

const takeOver: Command = {
  path: ["repair", "take-over"],
  summary: "state that a call which may be open at a plugin instance has ended",
  description:
    "For a controller that is over, or an instance whose host is off. If the call is open after all, its effect comes behind whatever was done since.",
  args: [calledArg],
  options: [kindOption, evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast repair take-over data --evidence "host of controller c1 is off" --reason "host lost"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const answer = await context.clients.repair.takeOver({
      namespace: context.settings.namespace,
      ...calledFields(input),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.TakeOverResponse", TakeOverResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const clearBar: Command = {
  path: ["repair", "clear-bar"],
  summary: "state that a call which was overtaken at another plugin instance has ended",
  description:
    "For a host or controller that never comes back; any other answers by itself. If the call is open after all, its effect comes behind whatever was done since.",
  args: [calledArg, { name: "bar", help: "its id, from `volume explain` or `repair stuck`" }],
  options: [kindOption, evidenceOption, reasonOption, confirmOption],
  examples: [
    {
      line: 'holdfast repair clear-bar data 5d2a… --evidence "host of node-a is scrapped" --reason "host lost"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const answer = await context.clients.repair.clearBar({
      namespace: context.settings.namespace,
      ...calledFields(input),
      bar: input.arg("bar"),
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.ClearBarResponse", ClearBarResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const removeOrphan: Command = {
  path: ["repair", "remove-orphan"],
  summary: "approve the removal of one orphan that a scan found",
  description: "What a record stands for, or a host still has mounted, is refused. Storage that is removed is lost.",
  args: [{ name: "orphan", help: "its id, from `repair scan`" }],
  options: [
    evidenceOption,
    reasonOption,
    confirmOption,
    { flags: "--secret <reference>", help: "for the plugin's calls, such as secret:backend-login" },
  ],
  examples: [
    {
      line: 'holdfast repair remove-orphan 4f1c… --evidence "owner asked" --reason "left by a test"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const secret = input.text("secret");
    const answer = await context.clients.repair.removeOrphan({
      orphanId: input.arg("orphan"),
      namespace: context.settings.namespace,
      secrets: secret === undefined ? undefined : { ref: secret },
      ...verbFields(input),
    });
    context.out.answer(shown("holdfast.v1.RemoveOrphanResponse", RemoveOrphanResponse, answer), () =>
      [
        outcomeText(context, answer.outcome),
        answer.volume === ""
          ? ""
          : `how far it is: holdfast volume explain ${answer.volume} --namespace ${answer.namespace}\n`,
      ].join(""),
    );
  },
};

const adoptVolume: Command = {
  path: ["repair", "adopt"],
  summary: "make a record for storage that a scan found",
  args: [
    volumeArg,
    { name: "plugin", help: "the plugin's name", completes: "plugin" },
    { name: "external-id", help: "the plugin's own name for the storage" },
  ],
  options: [
    {
      flags: "--attachment-mode <mode>",
      help: "how it will be used (default file-system)",
      completes: attachmentModes.words,
    },
    {
      flags: "--access-mode <mode>",
      help: "who may use it at once (default single-node-writer)",
      completes: accessModes.words,
    },
    { flags: "--fs-type <type>", help: "the file system that is on it" },
    reasonOption,
    confirmOption,
  ],
  examples: [
    {
      line: 'holdfast repair adopt data ebs.csi.aws.com vol-0abc --reason "found by scan"',
      says: "what would it mean?",
    },
  ],
  async run(context, input) {
    const attachmentMode = attachmentModes.parse(input.text("attachment-mode") ?? "file-system");
    const accessMode = accessModes.parse(input.text("access-mode") ?? "single-node-writer");
    if (attachmentMode === undefined || accessMode === undefined) throw usage("there is no such mode");
    const { evidence: _, ...fields } = verbFields(input);
    const answer = await context.clients.repair.adoptVolume({
      namespace: context.settings.namespace,
      volume: input.arg("volume"),
      plugin: input.arg("plugin"),
      externalId: input.arg("external-id"),
      capabilities: [{ attachmentMode, accessMode, fsType: input.text("fs-type") ?? "" }],
      ...fields,
    });
    context.out.answer(shown("holdfast.v1.AdoptVolumeResponse", AdoptVolumeResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const forgetVolume: Command = {
  path: ["repair", "forget-volume"],
  summary: "drop a volume's record with its attachments, calling no plugin",
  description: "For backends that are gone. Whatever the backend still has is leaked.",
  args: [volumeArg, { name: "uid", help: "the volume's uid: this life and no other" }],
  options: [reasonOption, confirmOption],
  examples: [
    { line: 'holdfast repair forget-volume data 7c1e… --reason "array scrapped"', says: "what would it mean?" },
  ],
  async run(context, input) {
    const { evidence: _, ...fields } = verbFields(input);
    const answer = await context.clients.repair.forgetVolume({
      namespace: context.settings.namespace,
      volume: input.arg("volume"),
      uid: input.arg("uid"),
      ...fields,
    });
    context.out.answer(shown("holdfast.v1.ForgetVolumeResponse", ForgetVolumeResponse, answer), () =>
      outcomeText(context, answer.outcome),
    );
  },
};

const vetStore: Command = {
  path: ["repair", "vet"],
  summary: "show why the store is not trusted, and with --accept trust it in spite of that",
  options: [
    { flags: "--accept", help: "open the store: a volume of a node that was not heard may get a second holder" },
    { flags: "--reason <text>", help: "why; needed with --accept, recorded" },
  ],
  examples: [{ line: "holdfast repair vet", says: "does the store grant, and what keeps it shut?" }],
  async run(context, input) {
    const answer = await context.clients.repair.vet({
      accept: input.flag("accept"),
      reason: input.text("reason") ?? "",
    });
    context.out.answer(shown("holdfast.v1.VetResponse", VetResponse, answer), () =>
      [
        answer.open ? `the store grants, generation ${answer.gen}\n` : "the store is shut: nothing is granted\n",
        ...answer.findings.map(
          ({ node, namespace, volume, message }) =>
            `  ${[node, volume === "" ? "" : `${namespace}/${volume}`].filter((word) => word !== "").join(" ")}: ${message}\n`,
        ),
        input.flag("accept") ? outcomeText(context, answer.outcome) : "",
      ].join(""),
    );
  },
};

export const overrideCommands: readonly Command[] = [
  removeOrphan,
  adoptVolume,
  abandonClaim,
  assertDetached,
  takeOver,
  clearBar,
  forgetVolume,
  forgetController,
  vetStore,
];
