/**
 * A peer that asks a volume driver as dockerd does (20.10, volume/drivers and pkg/plugins): an id per container and mount, the same request
 * again when the connection failed, nothing given back that it was not told of, nothing remembered by a new process.
 */
import { writeFile } from "node:fs/promises";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface DriverAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface FakeDockerd {
  /** One request, without a repeat. `cutAfterMs`: the connection is closed then, and the answer is lost. */
  send(call: string, body?: object, cutAfterMs?: number): Promise<DriverAnswer>;
  /** As dockerd asks: repeated while the connection fails. Rejects with what the driver says is wrong. */
  call(call: string, body?: object): Promise<Readonly<Record<string, unknown>>>;
  create(name: string, options?: Readonly<Record<string, string>>): Promise<void>;
  remove(name: string): Promise<void>;
  /** `docker run -v NAME:…`; answers where the volume is on the host. */
  run(container: string, name: string): Promise<string>;
  /** `docker rm -f`. */
  stop(container: string): Promise<void>;
  /** Killed and started again: containers are gone, and their mounts, which it answers, are not given back. */
  startAnew(): Promise<readonly { readonly Name: string; readonly ID: string }[]>;
}

/** dockerd gives up after 30 s. */
const retries = 150;
const retryMs = 200;

export const createFakeDockerd = async (socket: string, pidFile: string): Promise<FakeDockerd> => {
  let pid = 1000;
  let lastId = 0;
  const containers = new Map<string, { readonly name: string; readonly id: string }>();
  const startAnew: FakeDockerd["startAnew"] = async () => {
    pid += 1;
    const lost = [...containers.values()].map(({ name, id }) => ({ Name: name, ID: id }));
    containers.clear();
    await writeFile(pidFile, `${pid}`);
    return lost;
  };

  const send: FakeDockerd["send"] = (call, body, cutAfterMs) =>
    new Promise((resolve, reject) => {
      const sent = request(
        { socketPath: socket, path: `/${call}`, method: "POST", headers: { "content-type": "application/json" } },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.once("error", reject);
          response.once("end", () => {
            const text = Buffer.concat(chunks).toString("utf8");
            resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as DriverAnswer["body"] });
          });
        },
      );
      sent.once("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
      if (cutAfterMs !== undefined) setTimeout(() => sent.destroy(new Error("cut")), cutAfterMs);
    });

  const call: FakeDockerd["call"] = async (name, body) => {
    for (let failures = 0; ; failures += 1) {
      const answer = await send(name, body).catch((error: unknown) => {
        if (failures >= retries) throw error;
      });
      if (answer === undefined) {
        await sleep(retryMs);
        continue;
      }
      const wrong = answer.body["Err"];
      if (answer.status !== 200 || (typeof wrong === "string" && wrong !== ""))
        throw new Error(`${name}: ${String(wrong)}`);
      return answer.body;
    }
  };

  await startAnew();
  return {
    send,
    call,
    startAnew,
    create: async (name, options = {}) => void (await call("VolumeDriver.Create", { Name: name, Opts: options })),
    remove: async (name) => {
      await call("VolumeDriver.Get", { Name: name });
      await call("VolumeDriver.Remove", { Name: name });
    },
    async run(container, name) {
      await call("VolumeDriver.Get", { Name: name });
      lastId += 1;
      const id = `${pid}-${lastId}`.padEnd(64, "0");
      const { Mountpoint } = await call("VolumeDriver.Mount", { Name: name, ID: id });
      containers.set(container, { name, id });
      return String(Mountpoint);
    },
    async stop(container) {
      const held = containers.get(container);
      if (held === undefined) return;
      containers.delete(container);
      await call("VolumeDriver.Unmount", { Name: held.name, ID: held.id });
    },
  };
};
