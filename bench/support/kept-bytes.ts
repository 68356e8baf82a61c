import type { ManagedProcess } from "../../test/harness/managed-process.ts";

interface Reply {
  readonly id?: number;
  readonly result?: { readonly usedSize?: number; readonly backingStorageSize?: number };
}

/** Of a service whose kept bytes are asked for: an inspector on a free port, which asks for its garbage to be collected. */
export const inspected = { NODE_OPTIONS: "--inspect=0", HOLDFAST_DEBUG_RUNTIME: "on" };

const inspectorOf = async (service: ManagedProcess): Promise<string> => {
  // It was started with an inspector, and says where on standard error.
  for (let attempt = 0; attempt < 500; attempt += 1) {
    const found = service.output().matchAll(/Debugger listening on (ws:\/\/\S+)/g);
    const [, address] = [...found].at(-1) ?? [];
    if (address !== undefined) return address;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${service.name} opened no inspector`);
};

/** What a service keeps in memory for good: its heap and buffers, in bytes, once the garbage has been collected. */
export const keptBytes = async (service: ManagedProcess): Promise<number> => {
  const socket = new WebSocket(await inspectorOf(service));
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", () => reject(new Error(`the inspector of ${service.name} refuses`)), {
      once: true,
    });
  });
  const ask = (id: number, method: string): Promise<Reply> =>
    new Promise((resolve) => {
      const take = ({ data }: MessageEvent): void => {
        const reply = JSON.parse(String(data)) as Reply;
        if (reply.id !== id) return;
        socket.removeEventListener("message", take);
        resolve(reply);
      };
      socket.addEventListener("message", take);
      socket.send(JSON.stringify({ id, method }));
    });
  await ask(1, "HeapProfiler.collectGarbage");
  const { result } = await ask(2, "Runtime.getHeapUsage");
  socket.close();
  return (result?.usedSize ?? Number.NaN) + (result?.backingStorageSize ?? 0);
};
