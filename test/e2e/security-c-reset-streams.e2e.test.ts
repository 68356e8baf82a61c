import { type ClientHttp2Session, connect, constants } from "node:http2";
import { setImmediate as turn } from "node:timers/promises";
import { CreateVolumeRequest } from "@holdfast/shared/gen/holdfast/v1/volume";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { fileWriter, makeVolume, namespace, plugin, volumeStateName } from "../harness/scenario.ts";

const connections = 10;
const perConnection = 200;
const inOneWrite = 20;

/** As it is on the wire: not compressed, its length, the message. */
const frame = (id: string): Buffer => {
  const request = { namespace, id, plugin, capacity: { requiredBytes: 1n << 20n }, capabilities: [fileWriter] };
  const body = Buffer.from(CreateVolumeRequest.encode(CreateVolumeRequest.fromPartial(request)).finish());
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};

const path = "/holdfast.v1.VolumeService/CreateVolume";
const headers = { ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" };

/** Requests, and right behind them the word that nobody waits for their answer. */
const flood = async (session: ClientHttp2Session, name: string): Promise<void> => {
  for (let sent = 0; sent < perConnection && !session.destroyed; sent += inOneWrite) {
    const streams = Array.from({ length: inOneWrite }, (_, i) => {
      const stream = session.request(headers);
      stream.on("error", () => undefined);
      stream.end(frame(`${name}-${sent + i}`));
      return stream;
    });
    await turn();
    for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
    await turn();
  }
};

describe("security c: a caller that resets each of its calls", () => {
  let cluster: Cluster;
  let admin: string;

  beforeAll(async () => {
    cluster = await startCluster({ nodes: [] });
    const line = await cluster.controller().line((l) => l["message"] === "admin listening", "its admin address");
    admin = `http://${String(line["address"])}`;
  });
  afterAll(() => cluster?.stop());

  const volumes = async (): Promise<number> => {
    let count = 0;
    let pageToken = "";
    do {
      const page = await cluster.volumes.listVolumes({ pageSize: 500, pageToken });
      count += page.volumes.length;
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return count;
  };

  it("has next to nothing of them done, and the service answers others meanwhile", async () => {
    const sessions = Array.from({ length: connections }, () => connect(`http://${cluster.address}`));
    let flooding = true;
    const answers: number[] = [];
    const watching = (async () => {
      while (flooding) answers.push((await fetch(`${admin}/healthz`)).status);
    })();
    await Promise.all(
      sessions.map((session, i) =>
        flood(
          session.on("error", () => undefined),
          `flood-${i}`,
        ),
      ),
    );
    flooding = false;
    await watching;
    for (const session of sessions) session.destroy();
    expect(volumeStateName(await makeVolume(cluster, "wanted"))).toBe("AVAILABLE");
    // What is done of them comes before what was asked after them.
    expect(await volumes()).toBeLessThan((connections * perConnection) / 20);
    expect(new Set(answers)).toEqual(new Set([200]));
    const text = await (await fetch(`${admin}/metrics`)).text();
    const dropped = Number(/^holdfast_grpc_server_dropped_total\{[^}]*\} (\d+)$/m.exec(text)?.[1]);
    expect(dropped).toBeGreaterThan(0);
  });
});
