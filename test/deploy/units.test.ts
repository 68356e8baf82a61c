/** The units of deploy/systemd against the code that they start, and what they leave a service of root's rights. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { capabilitiesOf, readUnit, type UnitName } from "../support/unit-rights.ts";

const root = path.resolve(import.meta.dirname, "../..");
const names: readonly UnitName[] = ["controller", "node-agent", "local-driver"];
const units = names.map((name) => [name, readUnit(name)] as const);
const file = (name: UnitName): string => path.join(root, `deploy/systemd/holdfast-${name}.service`);

const everywhere = [
  "CapabilityBoundingSet",
  "NoNewPrivileges",
  "LimitCORE",
  "RestrictAddressFamilies",
  "RestrictRealtime",
  "LockPersonality",
  "SystemCallArchitectures",
  "SystemCallFilter",
];

/** By `systemd-analyze security`; a line that goes from a unit raises it. */
const mostExposed: Readonly<Record<UnitName, number>> = { controller: 2, "node-agent": 5.8, "local-driver": 6.2 };

describe("systemd units", () => {
  test.each(units)("%s starts a program of the package", (_, text) => {
    const [, started = ""] = /^ExecStart=\/usr\/bin\/node --disable-sigusr1 \/opt\/holdfast\/(\S+)$/m.exec(text) ?? [];
    expect(existsSync(path.join(root, "deploy/package", started)), started).toBe(true);
    expect(text).toMatch(/^RestartPreventExitStatus=78$/m);
  });

  test.each(units)("%s: each line that takes a right away says why", (_, text) => {
    const lines = text.split("\n");
    const taking = lines.flatMap((line, at) =>
      /^(CapabilityBoundingSet|NoNewPrivileges|Limit|Lock|Private|Protect|Restrict|SystemCall|UMask)/.test(line)
        ? [at]
        : [],
    );
    expect(taking.map((at) => lines[at]?.split("=")[0])).toEqual(expect.arrayContaining(everywhere));
    // The comment stands above the line, or above the block of lines of one kind that it is in.
    const said = (at: number): boolean => {
      const before = lines[at - 1] ?? "";
      return before.startsWith("# ") || (before !== "" && said(at - 1));
    };
    expect(taking.filter((at) => !said(at)).map((at) => lines[at])).toEqual([]);
    expect(text).toMatch(/^LimitCORE=0$/m);
  });

  test("services that speak have TLS without a setting, in a directory that they may write", () => {
    const tlsDir = (name: UnitName) => /^Environment=HOLDFAST_TLS_DIR=(\S+)$/m.exec(readUnit(name))?.[1] ?? "";
    expect(readUnit("controller")).toMatch(/^StateDirectory=holdfast-controller$/m);
    expect(tlsDir("controller")).toMatch(/^\/var\/lib\/holdfast-controller\//);
    // It has no ProtectSystem=, as its mounts are the host's.
    expect(tlsDir("node-agent")).toBe("/etc/holdfast/tls");
  });

  test("the controller keeps no capability, and those that mount keep what they name", () => {
    expect(capabilitiesOf(readUnit("controller"))).toEqual([]);
    for (const name of ["node-agent", "local-driver"] as const) {
      expect(capabilitiesOf(readUnit(name))).toContain("sys_admin");
      expect(capabilitiesOf(readUnit(name))).not.toEqual(expect.arrayContaining(["net_admin"]));
    }
  });

  test("those that mount have the host's mount namespace", () => {
    const privates =
      /^(ProtectSystem|ProtectHome|PrivateTmp|PrivateDevices|PrivateMounts|ReadOnlyPaths|ReadWritePaths|InaccessiblePaths|BindPaths|TemporaryFileSystem|ProtectKernelTunables|ProtectKernelModules|ProtectKernelLogs|ProtectControlGroups|ProtectClock|ProtectHostname|RootDirectory|MountFlags)=/m;
    for (const [name, text] of units) if (name !== "controller") expect(text, name).not.toMatch(privates);
  });

  const analyze = spawnSync("systemd-analyze", ["--version"]).status === 0;
  if (!analyze) console.warn("SKIPPED: systemd-analyze is not here: it tells how exposed the units are");
  test.runIf(analyze).each(names)("%s is no more exposed than before, by systemd's own count", (name) => {
    const { stdout } = spawnSync("systemd-analyze", ["security", "--offline=true", "--no-pager", file(name)], {
      encoding: "utf8",
    });
    const exposed = Number(/Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]);
    expect(exposed).toBeLessThanOrEqual(mostExposed[name]);
  });
});
