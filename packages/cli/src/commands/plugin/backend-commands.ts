/** What the backend itself says, asked through its plugin. */

import { sizeWords } from "@holdfast/model/size";
import { type ExternalSnapshot, ListExternalSnapshotsResponse } from "@holdfast/shared/gen/holdfast/v1/snapshot";
import {
  type ExternalVolume,
  GetCapacityRequest,
  GetCapacityResponse,
  ListExternalVolumesResponse,
} from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Command } from "../../frame/command.ts";
import { answerList, listOptions } from "../../frame/list-answer.ts";
import { shown } from "../../frame/output.ts";
import { detailsText } from "../../frame/tables.ts";
import { readSpec } from "../../spec/read-spec.ts";
import { ago } from "../../words/moment.ts";
import { allRows, pageSize } from "../all-pages.ts";
import { pluginArg } from "./plugin-commands.ts";

const knownAs = ({ knownNamespace, knownId }: Pick<ExternalVolume, "knownNamespace" | "knownId">): string =>
  knownId === "" ? "-" : `${knownNamespace}/${knownId}`;

export const listBackendVolumes: Command = {
  path: ["plugin", "list-volumes"],
  summary: "list the volumes that a CSI driver's backend has, and which of them are known here",
  args: [pluginArg],
  options: listOptions,
  examples: [
    {
      line: "holdfast plugin list-volumes ebs.csi.aws.com",
      says: "what is there to `volume register`? and what belongs to nobody?",
    },
  ],
  async run(context, input) {
    const plugin = input.arg("plugin");
    await answerList<ExternalVolume, ListExternalVolumesResponse>(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.volumes.listExternalVolumes({ plugin, pageSize, pageToken }),
          ({ volumes }) => volumes,
        ),
      answer: (volumes) =>
        shown("holdfast.v1.ListExternalVolumesResponse", ListExternalVolumesResponse, {
          volumes: [...volumes],
          nextPageToken: "",
        }),
      columns: () => [
        { title: "EXTERNAL ID", of: ({ externalId }) => externalId },
        { title: "KNOWN AS", of: knownAs },
        { title: "SIZE", of: ({ capacityBytes }) => sizeWords(capacityBytes) },
        { title: "PUBLISHED TO", of: ({ publishedDriverNodeIds }) => publishedDriverNodeIds.join(",") || "-" },
        { title: "CONDITION", of: ({ condition }) => (condition?.abnormal ? condition.message : "-") },
      ],
      name: ({ externalId }) => externalId,
      none: "the backend has no volume\n",
    });
  },
};

export const listBackendSnapshots: Command = {
  path: ["plugin", "list-snapshots"],
  summary: "list the snapshots that a CSI driver's backend has, and which of them are known here",
  args: [pluginArg],
  options: [
    { flags: "--of <external-id>", help: "only of the storage with this external id" },
    { flags: "--secret <reference>", help: "for the plugin's calls, such as secret:backend-login" },
    ...listOptions,
  ],
  examples: [{ line: "holdfast plugin list-snapshots ebs.csi.aws.com", says: "which belong to nobody?" }],
  async run(context, input) {
    const secret = input.text("secret");
    const request = {
      plugin: input.arg("plugin"),
      externalVolumeId: input.text("of") ?? "",
      namespace: context.settings.namespace,
      ...(secret === undefined ? {} : { secrets: { ref: secret } }),
    };
    await answerList<ExternalSnapshot, ListExternalSnapshotsResponse>(context, input, {
      read: () =>
        allRows(
          (pageToken) => context.clients.snapshots.listExternalSnapshots({ ...request, pageSize, pageToken }),
          ({ snapshots }) => snapshots,
        ),
      answer: (snapshots) =>
        shown("holdfast.v1.ListExternalSnapshotsResponse", ListExternalSnapshotsResponse, {
          snapshots: [...snapshots],
          nextPageToken: "",
        }),
      columns: (now) => [
        { title: "EXTERNAL ID", of: ({ externalId }) => externalId },
        { title: "KNOWN AS", of: knownAs },
        { title: "OF", of: ({ externalVolumeId }) => externalVolumeId || "-" },
        { title: "GROUP", of: ({ externalGroupId }) => externalGroupId || "-" },
        { title: "SIZE", of: ({ sizeBytes }) => sizeWords(sizeBytes) },
        { title: "CUT", of: ({ cutAt }) => ago(cutAt, now) },
        { title: "READY", of: ({ ready }) => (ready ? "yes" : "no") },
      ],
      name: ({ externalId }) => externalId,
      none: "the backend has no such snapshot\n",
    });
  },
};

export const backendCapacity: Command = {
  path: ["plugin", "capacity"],
  summary: "ask a CSI driver's backend how much it could still make",
  description: "The spec has the fields of GetCapacityRequest (docs/reference): of which volumes, and in which place.",
  args: [
    pluginArg,
    { name: "file", help: "the spec, YAML or JSON; - reads standard input", optional: true, completes: "file" },
  ],
  examples: [
    { line: "holdfast plugin capacity local.holdfast.dev", says: "of volumes with nothing special" },
    { line: "holdfast plugin capacity ebs.csi.aws.com fast.yaml", says: "with these parameters, in this zone" },
  ],
  async run(context, input) {
    const plugin = input.arg("plugin");
    const file = input.optionalArg("file");
    const kind = { type: "holdfast.v1.GetCapacityRequest", codec: GetCapacityRequest, hidden: ["plugin"] };
    const ask = (request: Partial<GetCapacityRequest>) => context.clients.volumes.getCapacity({ ...request, plugin });
    const spec = file === undefined ? undefined : await readSpec(context, kind, file, () => ({}));
    const answer = await (spec === undefined ? ask({}) : spec.call(() => ask(spec.request)));
    context.out.answer(shown("holdfast.v1.GetCapacityResponse", GetCapacityResponse, answer), () =>
      detailsText([
        ["Available", answer.availableBytes === 0n ? "nothing" : sizeWords(answer.availableBytes)],
        ["Largest volume", sizeWords(answer.maximumVolumeBytes)],
        ["Smallest volume", sizeWords(answer.minimumVolumeBytes)],
      ]),
    );
  },
};
