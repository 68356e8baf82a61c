import {
  CreateSnapshotGroupResponse,
  DeleteSnapshotGroupResponse,
  GetSnapshotGroupResponse,
  ListSnapshotGroupsResponse,
  SnapshotState,
} from "@holdfast/shared/gen/holdfast/v1/snapshot";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { answerOne, oneOption } from "../../frame/one-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText, narrowColumns, tableText } from "../../frame/tables.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { usage } from "../option-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { awaitSnapshot } from "./await-snapshot.ts";
import { callColumn, forgetOption, groupColumns, groupDetails, snapshotColumns } from "./snapshot-words.ts";

const groupArg = { name: "group", help: "the group's id" } as const;

const memberOf = (text: string) => {
  const [volume = "", snapshot = ""] = text.split("=", 2);
  if (volume === "" || snapshot === "") throw usage(`<members> ${text}: has to be volume=snapshot`);
  return { volume, snapshot };
};

export const createGroup: Command = {
  path: ["snapshot", "create-group"],
  summary: "cut several volumes of one plugin at the same point in time",
  args: [groupArg, { name: "members", help: "volume=snapshot: the ids that the snapshots shall have", many: true }],
  options: [noWaitOption, oneOption],
  examples: [
    { line: "holdfast snapshot create-group shop-monday db=db-monday wal=wal-monday", says: "one moment for both" },
  ],
  async run(context, input) {
    const id = input.arg("group");
    const at = `--namespace ${context.settings.namespace}`;
    const members = input.args("members").map(memberOf);
    const request = { namespace: context.settings.namespace, id, members, waitUntilReady: true };
    let answer = await context.clients.snapshots.createSnapshotGroup(request);
    if (input.flag("wait"))
      answer = await awaitSnapshot(context, {
        what: "snapshot group",
        id,
        ask: (waitFor, signal) => context.clients.snapshots.createSnapshotGroup({ ...request, waitFor }, { signal }),
        recordOf: ({ group }) => group,
        done: (record) => record?.state === SnapshotState.SNAPSHOT_STATE_READY,
        look: `holdfast snapshot group-status ${id} ${at}`,
        stop: `holdfast snapshot delete-group ${id} ${at}`,
      });
    const { group } = answer;
    answerOne(context.out, input, {
      answer: shown("holdfast.v1.CreateSnapshotGroupResponse", CreateSnapshotGroupResponse, answer),
      names: [id],
      people: () => (group === undefined ? "" : detailsText(groupDetails(group, context.io.now()))),
    });
  },
};

export const deleteGroup: Command = {
  path: ["snapshot", "delete-group"],
  summary: "destroy a group with all its snapshots",
  args: [groupArg],
  options: [forgetOption, noWaitOption],
  examples: [{ line: "holdfast snapshot delete-group shop-monday", says: "delete it and wait until it is gone" }],
  async run(context, input) {
    const id = input.arg("group");
    const request = { namespace: context.settings.namespace, id };
    let answer = await context.clients.snapshots.deleteSnapshotGroup({ ...request, forget: input.flag("forget") });
    if (answer.group !== undefined && input.flag("wait")) {
      const { uid } = answer.group;
      answer = await awaitSnapshot(context, {
        what: "the end of snapshot group",
        id,
        ask: (waitFor, signal) =>
          context.clients.snapshots.deleteSnapshotGroup({ ...request, uid, waitFor }, { signal }),
        recordOf: ({ group }) => group,
        done: (record) => record === undefined,
        look: `holdfast snapshot group-status ${id} --namespace ${request.namespace}`,
        stop: "",
      });
    }
    context.out.answer(shown("holdfast.v1.DeleteSnapshotGroupResponse", DeleteSnapshotGroupResponse, answer), () =>
      answer.group === undefined
        ? `${request.namespace}/${id} is gone\n`
        : `${request.namespace}/${id} is being deleted\n`,
    );
  },
};

export const statusGroup: Command = {
  path: ["snapshot", "group-status"],
  summary: "show a snapshot group and its snapshots",
  args: [groupArg],
  options: [oneOption],
  examples: [{ line: "holdfast snapshot group-status shop-monday", says: "the group, and each of its snapshots" }],
  async run({ clients, settings, out, io }, input) {
    const answer = await clients.snapshots.getSnapshotGroup({ namespace: settings.namespace, id: input.arg("group") });
    const { group, snapshots } = answer;
    answerOne(out, input, {
      answer: shown("holdfast.v1.GetSnapshotGroupResponse", GetSnapshotGroupResponse, answer),
      names: [input.arg("group")],
      people: () =>
        group === undefined
          ? ""
          : `${detailsText(groupDetails(group, io.now()))}\n${tableText(narrowColumns(snapshotColumns(io.now(), true)), snapshots)}`,
    });
  },
};

export const listGroups: Command = {
  path: ["snapshot", "list-groups"],
  summary: "list snapshot groups",
  options: [{ flags: "-A, --all-namespaces", help: "of every namespace" }, ...listOptions],
  examples: [
    { line: "holdfast snapshot list-groups", says: "all of the namespace" },
    { line: "holdfast snapshot list-groups -o wide", says: "with the calls of plugins that take long" },
  ],
  async run(context, input) {
    const filter = { namespace: input.flag("all-namespaces") ? "" : context.settings.namespace };
    await answerList(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.snapshots.listSnapshotGroups({ filter, pageSize, pageToken }),
          ({ groups }) => groups,
        ),
      answer: (groups) =>
        shown("holdfast.v1.ListSnapshotGroupsResponse", ListSnapshotGroupsResponse, {
          groups: [...groups],
          nextPageToken: "",
        }),
      columns: (now) => [...groupColumns(now, filter.namespace === ""), callColumn(now)],
      name: ({ id }) => id,
      none: "no snapshot group\n",
    });
  },
};
