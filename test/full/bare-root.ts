/**
 * A Debian that has nothing but Node 20 and npm, and a clone of this repository: what somebody has who has just come. Commands run in a
 * mount and a PID namespace of their own, with /proc, /dev and /sys as a container has them; nothing is mounted on this host.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** Where the clone lies inside; a user without rights may read it there. */
export const cloneInside = "/srv/holdfast";

export interface BareRoot {
  readonly dir: string;
  /** As root, or as a user without rights, in the clone. */
  run(command: string, user?: "nobody"): Promise<{ readonly code: number; readonly output: string }>;
  remove(): Promise<void>;
}

const must = (file: string, ...args: readonly string[]): string => {
  const { status, stdout, stderr, error } = spawnSync(file, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  if (status !== 0)
    throw new Error(`${file} ${args.join(" ")}: ${error?.message ?? `${stdout}${stderr}`.slice(-4000)}`);
  return stdout;
};

const authorities = "/etc/ssl/certs/ca-certificates.crt";

/** How this machine reaches the registries; empty where it needs no help. */
const reach = (): Readonly<Record<string, string>> => {
  const registry = must("npm", "config", "get", "registry", "--workspaces=false").trim();
  const proxies = Object.entries(process.env).filter(([name]) => /^(?:https?|no)_proxy$/i.test(name));
  return {
    ...Object.fromEntries(proxies.map(([name, value]) => [name, value ?? ""])),
    ...(registry.startsWith("http") ? { NPM_CONFIG_REGISTRY: registry } : {}),
    ...(existsSync(authorities) ? { NPM_CONFIG_CAFILE: authorities, NODE_EXTRA_CA_CERTS: authorities } : {}),
  };
};

/** Names, authorities, and what apt is told of proxies and clocks; nothing of it is a program. */
const copySettings = async (root: string): Promise<void> => {
  const aptConf = "/etc/apt/apt.conf.d";
  const told = (await readdir(aptConf).catch(() => [])).map((name) => path.join(aptConf, name));
  const acquire: string[] = [];
  for (const file of told) if (/^\s*Acquire::/m.test(await readFile(file, "utf8"))) acquire.push(file);
  for (const file of ["/etc/resolv.conf", "/etc/hosts", authorities, ...acquire]) {
    if (!existsSync(file)) continue;
    await mkdir(path.join(root, path.dirname(file)), { recursive: true });
    await copyFile(file, path.join(root, file));
  }
};

const installNode = async (root: string): Promise<void> => {
  const packages = await mkdtemp(path.join(tmpdir(), "hf-node-"));
  try {
    const names = [`node-linux-${process.arch}@20`, "npm@10"];
    const [node = "", npm = ""] = must("npm", "pack", "--silent", "--pack-destination", packages, ...names)
      .trim()
      .split("\n");
    const local = path.join(root, "usr/local");
    const npmHome = path.join(local, "lib/node_modules/npm");
    await mkdir(npmHome, { recursive: true });
    must("tar", "-xzf", path.join(packages, node), "-C", local, "--strip-components=1", "package/bin/node");
    must("tar", "-xzf", path.join(packages, npm), "-C", npmHome, "--strip-components=1");
    for (const [name, file] of Object.entries({ npm: "npm-cli.js", npx: "npx-cli.js" }))
      await symlink(`../lib/node_modules/npm/bin/${file}`, path.join(local, "bin", name));
  } finally {
    await rm(packages, { recursive: true, force: true });
  }
};

/** pivot_root and not chroot: inside of a chroot nobody makes a user namespace, and / is no mount whose propagation could be set. */
const enter = `set -e
mount --bind "$1" "$1"; cd "$1"
mount -t proc proc proc
mount --rbind /dev dev; mount --make-rslave dev
mount --rbind /sys sys; mount --make-rslave sys
pivot_root . .; umount -l .
shift
exec env -i "$@"
`;

export const createBareRoot = async (repo: string): Promise<BareRoot> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-bare-"));
  const root = path.join(dir, "root");
  must("debootstrap", "--variant=minbase", "bookworm", root);
  await copySettings(root);
  await installNode(root);
  await mkdir(path.join(root, path.dirname(cloneInside)), { recursive: true });
  must("git", "clone", "--quiet", repo, path.join(root, cloneInside));
  must("chown", "-R", "65534:65534", path.join(root, cloneInside));
  const script = path.join(dir, "enter.sh");
  await writeFile(script, enter);

  const variables = Object.entries({
    ...reach(),
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  }).map(([name, value]) => `${name}=${value}`);
  return {
    dir,
    async run(command, user) {
      const home = user === undefined ? "HOME=/root" : "HOME=/tmp/nobody";
      const rights = user === undefined ? [] : ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
      const inside = ["sh", "-c", `exec 2>&1; mkdir -p "$HOME"; cd ${cloneInside}; ${command}`];
      const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"];
      const args = [...namespaces, "sh", script, root, ...variables, home, ...rights, ...inside];
      const child = spawn("unshare", args, { stdio: ["ignore", "pipe", "pipe"] });
      let output = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (part: Buffer) => {
          output += part.toString("utf8");
        });
      const [code] = (await once(child, "close")) as [number | null];
      return { code: code ?? 1, output };
    },
    async remove() {
      if ((await readFile("/proc/self/mountinfo", "utf8")).includes(dir))
        throw new Error(`something is mounted below ${dir}: unmount it, then remove the directory`);
      must("rm", "-rf", "--one-file-system", dir);
    },
  };
};
