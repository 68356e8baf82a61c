import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { certified } from "@holdfast/shared/testing/certified";
import { createTestAuthority } from "@holdfast/shared/testing/test-authority";
import { expect, test } from "vitest";
import { openCertificates } from "./link-certificates.ts";

const opened = (tlsDir: string | undefined, controllers: readonly string[]) => {
  const log = createMemoryLogger();
  const end = new AbortController();
  const credentials = openCertificates({ config: { node: "n1", tlsDir, controllers }, log, signal: end.signal });
  end.abort();
  return {
    credentials,
    warned: log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["controllers"]),
  };
};

test("an agent without a certificate says which controllers beyond its host it believes", () => {
  const all = ["127.0.0.1:7602", "unix:///run/c.sock", "controller.example:7602", "10.0.0.1:7602"];
  expect(opened(undefined, all)).toEqual({
    credentials: undefined,
    warned: [["controller.example:7602", "10.0.0.1:7602"]],
  });
  expect(opened(undefined, ["127.0.0.1:7602"]).warned).toEqual([]);
});

test("an agent bears the certificate of its own node and of no other", async () => {
  const authority = await createTestAuthority();
  const own = await certified(authority, { path: "csi/node/n1" });
  expect(opened(own.directory, ["10.0.0.1:7602"])).toMatchObject({ credentials: expect.anything(), warned: [] });
  for (const path of ["csi/node/n2", "csi/controller/n1"]) {
    const other = await certified(authority, { path });
    expect(() => opened(other.directory, [])).toThrow(/HOLDFAST_TLS_DIR/);
  }
});
