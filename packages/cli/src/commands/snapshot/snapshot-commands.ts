import {
  CreateSnapshotResponse,
  DeleteSnapshotResponse,
  GetSnapshotResponse,
  ListSnapshotsResponse,
  SnapshotState,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { labelsOf, optionWords, usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitSnapshot } from "./await-snapshot.ts";
import { callColumn, forgetOption, snapshotColumns, snapshotDetails, snapshotStates } from "./snapshot-words.ts";

const snapshotArg = { name: "snapshot", help: "the snapshot's id", completes: "snapshot" } as const;

const placeOf = (place: string): { readonly segments: Record<string, string> } => {
  const parts = place.split(",");
  const segments = labelsOf("--topology", parts);
  if (Object.keys(segments).length < parts.length) throw usage(`--topology ${place}: names a key twice`);
  return { segments };
};

export const createSnapshot: Command = {
  path: ["snapshot", "create"],
  summary: "cut a volume at a point in time",
  description:
    "Waits until it can be restored from. The volume stays in use; `--until cut` waits for the point in time alone.",
  args: [
    { name: "volume", help: "the volume's id", completes: "volume" },
    { name: "snapshot", help: "the id that the snapshot shall have" },
  ],
  options: [
    { flags: "--parameter <key=value>", help: "the plugin's own; may be repeated", many: true },
    { flags: "--label <key=value>", help: "may be repeated", many: true },
    {
      flags: "--topology <key=value>",
      help: "a place where volumes are to be made from it, more keys of it after a comma; repeated: one place or another",
      many: true,
    },
    { flags: "--until <state>", help: "cut or ready (default ready)", completes: ["cut", "ready"] },
    noWaitOption,
    oneOption,
  ],
  examples: [
    { line: "holdfast snapshot create data data-monday", says: "cut it and wait until it is READY" },
    {
      line: "holdfast snapshot create data data-monday --topology topology.example.com/zone=a",
      says: "of a plugin with SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: volumes in zone a can be made from it",
    },
  ],
  async run(context, input) {
    const id = input.arg("snapshot");
    const at = `--namespace ${context.settings.namespace}`;
    const waitUntilReady = input.text("until") !== "cut";
    const request = {
      namespace: context.settings.namespace,
      id,
      volume: input.arg("volume"),
      parameters: labelsOf("--parameter", input.list("parameter")),
      labels: labelsOf("--label", input.list("label")),
      topology: input.list("topology").map(placeOf),
      waitUntilReady,
    };
    let answer = await context.clients.snapshots.createSnapshot(request);
    if (input.flag("wait"))
      answer = await awaitSnapshot(context, {
        what: "snapshot",
        id,
        ask: (waitFor, signal) => context.clients.snapshots.createSnapshot({ ...request, waitFor }, { signal }),
        recordOf: ({ snapshot }) => snapshot,
        done: (record) =>
          record?.state === SnapshotState.SNAPSHOT_STATE_READY ||
          (!waitUntilReady && record?.state === SnapshotState.SNAPSHOT_STATE_CUT),
        look: `holdfast snapshot status ${id} ${at}`,
        stop: `holdfast snapshot delete ${id} ${at}`,
      });
    const { snapshot } = answer;
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.CreateSnapshotResponse", CreateSnapshotResponse, answer),
      names: [id],
      people: () => (snapshot === undefined ? "" : detailsText(snapshotDetails(snapshot, context.io.now()))),
    });
  },
};

export const deleteSnapshot: Command = {
  path: ["snapshot", "delete"],
  summary: "destroy a snapshot",
  args: [snapshotArg],
  options: [{ flags: "--uid <uid>", help: "only this life of the id" }, forgetOption, noWaitOption],
  examples: [{ line: "holdfast snapshot delete data-monday", says: "delete it and wait until it is gone" }],
  async run(context, input) {
    const id = input.arg("snapshot");
    const request = { namespace: context.settings.namespace, id, uid: input.text("uid") ?? "" };
    const at = `--namespace ${request.namespace}`;
    let answer = await context.clients.snapshots.deleteSnapshot({ ...request, forget: input.flag("forget") });
    if (answer.snapshot !== undefined && input.flag("wait")) {
      const { uid } = answer.snapshot;
      answer = await awaitSnapshot(context, {
        what: "the end of snapshot",
        id,
        ask: (waitFor, signal) => context.clients.snapshots.deleteSnapshot({ ...request, uid, waitFor }, { signal }),
        recordOf: ({ snapshot }) => snapshot,
        done: (record) => record === undefined,
        look: `holdfast snapshot status ${id} ${at}`,
        stop: "",
      });
    }
    context.out.answer(shown("holdfast.v1.DeleteSnapshotResponse", DeleteSnapshotResponse, answer), () =>
      answer.snapshot === undefined
        ? `${request.namespace}/${id} is gone\n`
        : `${request.namespace}/${id} is being deleted\n`,
    );
  },
};

export const statusSnapshot: Command = {
  path: ["snapshot", "status"],
  summary: "show a snapshot",
  args: [snapshotArg],
  options: [oneOption],
  examples: [{ line: "holdfast snapshot status data-monday", says: "its record, in full" }],
  async run({ clients, settings, out, io }, input) {
    const answer = await clients.snapshots.getSnapshot({ namespace: settings.namespace, id: input.arg("snapshot") });
    const { snapshot } = answer;
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetSnapshotResponse", GetSnapshotResponse, answer),
      names: [input.arg("snapshot")],
      people: () => (snapshot === undefined ? "" : detailsText(snapshotDetails(snapshot, io.now()))),
    });
  },
};

export const listSnapshots: Command = {
  path: ["snapshot", "list"],
  summary: "list snapshots",
  options: [
    { flags: "-A, --all-namespaces", help: "of every namespace" },
    { flags: "--volume <volume>", help: "only of this volume", completes: "volume" },
    { flags: "--plugin <plugin>", help: "only of this plugin", completes: "plugin" },
    {
      flags: "--state <state>",
      help: "only in this state; may be repeated",
      many: true,
      completes: snapshotStates.words,
    },
    { flags: "--label <key=value>", help: "only with this label; may be repeated", many: true },
    { flags: "--blocked", help: "only what cannot go on by itself" },
    ...listOptions,
  ],
  examples: [
    { line: "holdfast snapshot list --volume data", says: "what there is to restore from" },
    { line: "holdfast snapshot list -o wide", says: "with the calls of plugins that take long" },
  ],
  async run(context, input) {
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      volume: input.text("volume") ?? "",
      plugin: input.text("plugin") ?? "",
      states: optionWords("--state", snapshotStates, input.list("state")),
      labels: labelsOf("--label", input.list("label")),
      blocked: input.flag("blocked"),
    };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.snapshots.listSnapshots({ filter, pageSize, pageToken }),
          ({ snapshots }) => snapshots,
        ),
      answer: (snapshots) =>
        shown("holdfast.v1.ListSnapshotsResponse", ListSnapshotsResponse, {
          snapshots: [...snapshots],
          nextPageToken: "",
        }),
      columns: (now) => [...snapshotColumns(now, filter.namespace === ""), callColumn(now)],
      name: ({ id }) => id,
      none: "no snapshot\n",
    });
  },
};
