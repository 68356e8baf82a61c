/**
 * The seccomp profile of the compose file: what it leaves out, and that it is one that an engine reads. A whole installation runs under it in
 * test/e2e/local-driver.e2e.test.ts.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { canLoadSeccomp, seccompProfile, underSeccomp } from "../support/under-seccomp.ts";

const root = path.resolve(import.meta.dirname, "../..");
if (!canLoadSeccomp)
  console.warn(`SKIPPED: nothing runs under ${seccompProfile}: python3-seccomp of Debian, which loads it, is not here`);

interface Rule {
  readonly comment?: string;
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly object[];
  readonly includes?: { readonly caps: readonly string[] };
}
const profile = JSON.parse(readFileSync(path.join(root, seccompProfile), "utf8")) as {
  readonly defaultAction: string;
  readonly defaultErrnoRet: number;
  readonly archMap: readonly { readonly architecture: string; readonly subArchitectures: readonly string[] }[];
  readonly syscalls: readonly Rule[];
};
const named = (rules: readonly Rule[]): readonly string[] => rules.flatMap(({ names }) => names);
/** What every container may call, with whatever arguments. */
const always = profile.syscalls.filter(
  ({ action, args, includes }) => action === "SCMP_ACT_ALLOW" && !args && !includes,
);

/** Of other processes, of the kernel, of namespaces, of the machine, of the rights of the own process; and code that no file has. */
const never = [
  ...["ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "perf_event_open"],
  ...["bpf", "userfaultfd", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "syslog"],
  ...[
    "unshare",
    "setns",
    "pivot_root",
    "chroot",
    "open_by_handle_at",
    "name_to_handle_at",
    "quotactl",
    "acct",
    "swapon",
  ],
  ...["reboot", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "iopl", "ioperm", "mknod"],
  ...["setuid", "setgid", "setreuid", "setresuid", "setgroups", "setfsuid", "capset", "personality", "seccomp"],
  ...["keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "memfd_create", "memfd_secret"],
];

describe("the seccomp profile", () => {
  test("refuses what it does not name, and names each call once, of the machine's own kind alone", () => {
    expect(profile.defaultAction).toBe("SCMP_ACT_ERRNO");
    expect(profile.defaultErrnoRet).toBe(1);
    expect(profile.archMap.flatMap(({ subArchitectures }) => subArchitectures)).toEqual([]);
    const plain = named(profile.syscalls.filter(({ args }) => args === undefined));
    expect(plain.filter((name, at) => plain.indexOf(name) !== at)).toEqual([]);
    for (const { names } of profile.syscalls) expect([...names].sort()).toEqual(names);
    expect(profile.syscalls.filter(({ comment = "" }) => comment === "")).toEqual([]);
  });

  test("names nothing that reaches into another process, the kernel or a namespace", () => {
    expect(named(profile.syscalls).filter((name) => never.includes(name))).toEqual([]);
    expect(named(always).filter((name) => ["clone", "clone3", "socket"].includes(name))).toEqual([]);
    const conditional = profile.syscalls.filter(({ includes }) => includes !== undefined);
    expect(conditional.map(({ includes }) => includes)).toEqual([{ caps: ["CAP_SYS_ADMIN"] }]);
    expect(named(conditional).filter((name) => !/mount|^fs(open|config|pick)$|^open_tree$/.test(name))).toEqual([]);
  });

  test("is that of the controller and of the agents, which gain no right either", () => {
    const { services } = parse(readFileSync(path.join(root, "docker-compose.yml"), "utf8"), { merge: true });
    type Service = { readonly build?: { readonly target: string }; readonly security_opt?: readonly string[] };
    const built = Object.values<Service>(services).filter(({ build }) => build !== undefined);
    for (const { build, security_opt } of built) {
      const filtered = build?.target === "controller" || build?.target === "node-agent";
      const wanted = ["no-new-privileges:true", ...(filtered ? [`seccomp=${seccompProfile}`] : [])];
      expect(security_opt, build?.target).toEqual(wanted);
    }
  });

  const isRoot = process.getuid?.() === 0;
  /** In a mount namespace of its own: what is not refused changes nothing here. */
  const inContainer = (capabilities: readonly string[], ...command: readonly string[]) =>
    spawnSync("unshare", ["--mount", "--", ...underSeccomp(capabilities), ...command], { encoding: "utf8" });
  const mount = ["mount", "-t", "tmpfs", "none", "/mnt"];

  test.runIf(canLoadSeccomp && isRoot)("refuses root a namespace and a mount, and lets Node run", () => {
    for (const command of [["unshare", "--mount", "true"], ["unshare", "--user", "true"], mount]) {
      const { status, stderr } = inContainer([], ...command);
      expect(status, command.join(" ")).not.toBe(0);
      expect(stderr).toMatch(/not permitted|permission denied/i);
    }
    const ask = "fetch('http://127.0.0.1:1').catch(() => console.log('asked'))";
    expect(inContainer([], process.execPath, "-e", ask)).toMatchObject({ status: 0, stdout: "asked\n" });
  });

  test.runIf(canLoadSeccomp && isRoot)("lets a container mount that has CAP_SYS_ADMIN", () => {
    expect(inContainer(["sys_admin"], ...mount)).toMatchObject({ status: 0, stderr: "" });
  });
});
