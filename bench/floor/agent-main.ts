import { NodeDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { announce } from "./announce.ts";
import { openBareJournal } from "./bare-journal.ts";
import { equipmentOf } from "./equipment.ts";
import { publishMessage, stageMessage, unpublishMessage, unstageMessage } from "./messages.ts";
import { journalRecord } from "./records.ts";
import { stub } from "./stub.ts";

/** node agent-main.ts SOCKET JOURNAL [OTLP]: stands for the agent: two calls and three syncs for one call. */
const [socket = "", file = "", otlpEndpoint] = process.argv.slice(2);
const equipment = await equipmentOf("floor-agent", otlpEndpoint);
const plugin = equipment.client(NodeDefinition, `unix://${socket}`);
const journal = await openBareJournal(file);
const server = equipment.server();
const epoch = { gen: 1n, ctr: 42n };

server.add(
  AgentServiceDefinition,
  stub({
    publish: async ({ permit }) => {
      const volume = permit?.volume ?? "";
      await journal.append(journalRecord(volume, "permit, stage intent"));
      await plugin.nodeStageVolume(stageMessage(volume));
      await journal.append(journalRecord(volume, "staged, publish intent"));
      const request = publishMessage(volume);
      await plugin.nodePublishVolume(request);
      await journal.append(journalRecord(volume, "published"));
      return { published: { hostPath: request.targetPath, epoch } };
    },
    release: async ({ volume }) => {
      await journal.append(journalRecord(volume, "unpublish intent"));
      await plugin.nodeUnpublishVolume(unpublishMessage(volume));
      await journal.append(journalRecord(volume, "unpublished, unstage intent"));
      await plugin.nodeUnstageVolume(unstageMessage(volume));
      await journal.append(journalRecord(volume, "released"));
      return { released: { epoch } };
    },
  }),
);
announce(`127.0.0.1:${await server.listen("127.0.0.1:0")}`);
