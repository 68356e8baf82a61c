import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import path from "node:path";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { afterEach, describe, expect, it } from "vitest";
import { createPluginAdmission, type PluginAdmissionOptions } from "./plugin-admission.ts";
import { openPluginBindings } from "./plugin-bindings.ts";
import { readOwnUid, readSocketState } from "./socket-state.ts";
import { useConnectionFixture } from "./testing/connection-fixture.ts";

const { home } = useConnectionFixture();
const plugin = "a.example.com";
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

const at = (...parts: string[]): string => path.join(home().dir, ...parts);
const listen = async (name: string): Promise<string> => {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(at(name), resolve));
  return at(name);
};
const open = (more: Partial<PluginAdmissionOptions> = {}) => {
  const bindings = openPluginBindings(at("bindings.json"));
  const acceptWith = (name: string, socket: string) => `accept ${name} ${socket}`;
  return { bindings, ...createPluginAdmission({ bindings, acceptWith, log: createMemoryLogger(), ...more }) };
};
type Opened = ReturnType<typeof open>;
const admit = async ({ admit: ask }: Opened, socketPath: string, name = plugin, added = false) => {
  const state = await readSocketState(socketPath, await readOwnUid());
  const incarnation = state.kind === "present" ? state.incarnation : "";
  return (await ask({ plugin: name, socketPath, incarnation, added }))?.reason;
};
const accept = ({ accept: say }: Opened, socketPath: string) => say({ plugin, socketPath, reason: "moved" });
const boundTo = ({ bindings }: Opened) => bindings.of(plugin)?.map(({ socket }) => path.basename(socket));

describe("which socket may have a plugin's name", () => {
  it("the first one has it, also after a restart of whoever asks; another path is told the command that accepts it", async () => {
    const [first, second] = [await listen("a.sock"), await listen("b.sock")];
    expect(await admit(open(), first)).toBeUndefined();
    expect(await admit(open(), second)).toContain(`accept ${plugin} ${second}`);
    expect(await admit(open(), first)).toBeUndefined();
    expect(await admit(open(), second, "b.example.com")).toBeUndefined();
    expect((await stat(at("bindings.json"))).mode & 0o777).toBe(0o600);
  });

  it("the same path under other owners, or in a directory of others, is another place", async () => {
    const socket = await listen("a.sock");
    const one = open();
    await admit(one, socket);
    const [place] = one.bindings.of(plugin) ?? [];
    for (const field of ["uid", "gid", "directoryUid", "directoryGid"] as const) {
      const other = open();
      other.bindings.bind(plugin, place === undefined ? [] : [{ ...place, [field]: place[field] + 1 }]);
      expect(await admit(open(), socket), field).toContain("is bound to");
    }
  });

  it("of two that announce one name at once, one has it", async () => {
    const sockets = [await listen("a.sock"), await listen("b.sock"), await listen("c.sock")];
    const asked = open();
    const answers = await Promise.all(sockets.map((socket) => admit(asked, socket)));
    expect(answers.filter((answer) => answer === undefined)).toHaveLength(1);
    expect(boundTo(asked)).toHaveLength(1);
  });

  it("a socket that was replaced while its plugin said who it is, is nobody's", async () => {
    const socket = await listen("a.sock");
    await expect(open().admit({ plugin, socketPath: socket, incarnation: "earlier", added: false })).rejects.toThrow(
      "was replaced",
    );
    expect(boundTo(open())).toBeUndefined();
  });

  it("a hosted instance has its name by itself, and no socket that was merely found has it then", async () => {
    const socket = await listen("a.sock");
    const asked = open();
    expect(await admit(asked, at("hosted", "csi.sock"), plugin, true)).toBeUndefined();
    expect(await admit(open(), socket)).toContain("hosts through this agent");
    // Beside a socket that had it first, a hosted instance goes on too.
    expect(await admit(asked, socket, "b.example.com")).toBeUndefined();
    expect(await admit(asked, at("hosted", "csi.sock"), "b.example.com", true)).toBeUndefined();
    expect(await admit(asked, socket, "b.example.com")).toBeUndefined();
  });

  it("what stands in plugins.json is bound as it is; a name that it gives to a socket is no other's, whatever was bound before", async () => {
    const [first, second, third] = [await listen("a.sock"), await listen("b.sock"), await listen("c.sock")];
    expect(await admit(open(), first)).toBeUndefined();
    const listed = open({ listed: (socket) => socket === second });
    expect(await admit(listed, second)).toBeUndefined();
    expect([await admit(listed, first), boundTo(open())]).toEqual([undefined, ["a.sock", "b.sock"]]);
    const pinned = open({ listed: (socket) => socket === second, pinnedTo: () => second });
    expect(await admit(pinned, first)).toContain("plugins.json");
    await expect(accept(pinned, third)).rejects.toMatchObject({ reason: "PLUGIN_IMPOSTOR", kind: "precondition" });
    // An entry that gives the socket another name, or none, says nothing of this one.
    const unnamed = open({ listed: (socket, name) => socket === third && name === "c.example.com" });
    expect(await admit(unnamed, third)).toContain("is bound to");
    expect(await admit(unnamed, third, "c.example.com")).toBeUndefined();
  });

  it("a person's word binds, wakes who waits for it, and lets go of places that were left", async () => {
    const [first, second] = [await listen("a.sock"), await listen("b.sock")];
    const asked = open();
    await admit(asked, first);
    const state = await readSocketState(second, await readOwnUid());
    const incarnation = state.kind === "present" ? state.incarnation : "";
    const refused = await asked.admit({ plugin, socketPath: second, incarnation, added: false });
    const woken = refused?.changed(AbortSignal.timeout(5_000));
    expect(await accept(asked, second)).toHaveLength(2);
    await woken;
    expect([await admit(open(), first), await admit(open(), second)]).toEqual([undefined, undefined]);
    expect(await accept(asked, second)).toHaveLength(2);

    await rename(first, at("left"));
    const third = await listen("c.sock");
    await accept(asked, third);
    expect(boundTo(open())).toEqual(["b.sock", "c.sock"]);
    await expect(accept(asked, at("none.sock"))).rejects.toMatchObject({ reason: "PLUGIN_INSTANCE_NOT_FOUND" });
    await expect(asked.accept({ plugin: "-", socketPath: "x", reason: " " })).rejects.toMatchObject({
      violations: [{ field: "plugin" }, { field: "socket" }, { field: "reason" }],
    });
  });

  it("a file that is damaged, or of a later version, is never taken for an empty one", async () => {
    await admit(open(), await listen("a.sock"));
    const good = await readFile(at("bindings.json"), "utf8");
    for (const [text, says] of [
      ["", "is damaged"],
      [good.slice(0, -10), "is damaged"],
      [good.replace('"uid"', '"user"'), "is damaged"],
      [good.replace('"format": 1', '"format": 2'), "has format 2"],
    ] as const) {
      await writeFile(at("bindings.json"), text);
      expect(() => open()).toThrow(says);
    }
  });

  it("a binding that cannot be kept admits nobody", async () => {
    const socket = await listen("a.sock");
    await mkdir(at("bindings.json.new"));
    await expect(admit(open(), socket)).rejects.toThrow("EISDIR");
    await rm(at("bindings.json.new"), { recursive: true });
    expect(boundTo(open())).toBeUndefined();
  });
});
