import { NodeDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import { AgentServiceDefinition } from "@holdfast/shared/gen/holdfast/internal/v1/agent";
import { announce } from "./announce.ts";
import { openBareJournal } from "./bare-journal.ts";
import { equipmentOf } from "./equipment.ts";
import { floorTls } from "./floor-tls.ts";
import { readFloorVolumes } from "./floor-volumes.ts";
import { publishMessage, stageMessage, unpublishMessage, unstageMessage } from "./messages.ts";
import { journalRecord } from "./records.ts";
import { stub } from "./stub.ts";

/** node agent-main.ts VOLUMES SOCKET JOURNAL [OTLP]: stands for the agent: two calls and three syncs for one call. */
const [volumes = "", socket = "", file = "", otlpEndpoint] = process.argv.slice(2);
const volumeOf = readFloorVolumes(volumes);
const equipment = await equipmentOf("floor-agent", otlpEndpoint);
const plugin = equipment.client(NodeDefinition, `unix://${socket}`);
const journal = await openBareJournal(file);
const server = equipment.server();
const epoch = { gen: 1n, ctr: 42n };

server.add(
  AgentServiceDefinition,
  stub({
    publish: async ({ permit }) => {
      const volume = volumeOf(permit?.volume ?? "");
      const publishContext = permit?.publishContext ?? {};
      await journal.append(journalRecord(volume.name, "permit, stage intent"));
      await plugin.nodeStageVolume(stageMessage(volume, publishContext));
      await journal.append(journalRecord(volume.name, "staged, publish intent"));
      await plugin.nodePublishVolume(publishMessage(volume, publishContext));
      await journal.append(journalRecord(volume.name, "published"));
      return { published: { hostPath: volume.target, epoch } };
    },
    release: async ({ volume: name }) => {
      const volume = volumeOf(name);
      await journal.append(journalRecord(name, "unpublish intent"));
      await plugin.nodeUnpublishVolume(unpublishMessage(volume));
      await journal.append(journalRecord(name, "unpublished, unstage intent"));
      await plugin.nodeUnstageVolume(unstageMessage(volume));
      await journal.append(journalRecord(name, "released"));
      return { released: { epoch } };
    },
  }),
);
announce(`127.0.0.1:${await server.listen("127.0.0.1:0", floorTls?.server)}`);
