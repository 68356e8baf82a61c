import { expect } from "vitest";
import { type ComposeRun, targets } from "./compose-run.ts";

const megabytes = (bytes: string): number => Math.round(Number(bytes) / 1e6);

/**
 * Each image of ours: what it adds to its base, that it holds no secret of its build, that it has its labels, and that nothing of /app is of
 * one kind of machine alone.
 */
export const expectSmallImages = async ({ engine, figures }: Pick<ComposeRun, "engine" | "figures">): Promise<void> => {
  const size = async (name: string) => megabytes(await engine.docker(["image", "inspect", "-f", "{{.Size}}", name]));
  const base = await size("node:26-slim");
  figures.set("node:26-slim as made here", "image", `${base} MB`);
  for (const target of targets) {
    const name = `holdfast-${target}`;
    const layers = (
      await engine.docker(["history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", name])
    )
      .split("\n")
      .filter((line) => target === "local-driver" && line.includes("e2fsprogs"));
    const packages = layers.reduce((sum, line) => sum + megabytes(line.split(" ")[0] ?? "0"), 0);
    const whole = await size(name);
    figures.set(name, "image", `${whole} MB`);
    figures.set(name, "above its base", `${whole - base - packages} MB`);
    if (packages > 0) figures.set(name, "packages", `${packages} MB`);
    expect(whole - base - packages).toBeLessThanOrEqual(60);
    const look = ["run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "sh", name, "-c"];
    expect(await engine.docker([...look, "ls -A /run/secrets /root/.npmrc 2>/dev/null; true"])).toBe("");
    expect(await engine.docker([...look, "find /app -name '*.node' -o -path '*linux-x64*' | head"])).toBe("");
    const labels = await engine.docker(["image", "inspect", "-f", "{{json .Config.Labels}}", name]);
    expect(JSON.parse(labels)).toMatchObject({ "org.opencontainers.image.title": name });
  }
};
