import { cp, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildGoProgram, goModule, root, runToEnd } from "./run-go.ts";

export const prometheusVersion = "3.7.3";

/** Numbered as the program, but by 0.300 more. */
const prometheus = {
  module: "github.com/prometheus/prometheus@v0.307.3",
  sum: "h1:zGIN3EpiKacbMatcUL2i6wC26eRWXdoXfNPjoBc2l34=",
};
const minute = 60_000;

/**
 * Of its ways to find targets those that need no other program alone: lists, files, HTTP and DNS. The others bring the clients of two dozen
 * clouds, and half an hour of a build. It has no user interface.
 */
export const buildPrometheus = async (): Promise<string> => {
  const source = path.join(root, ".cache/prometheus-source");
  await rm(source, { recursive: true, force: true });
  await cp(await goModule(prometheus.module, prometheus.sum), source, { recursive: true });
  // A module's files are read-only.
  await runToEnd("chmod", ["-R", "u+w", source], minute);
  const plugins = 'package plugins\n\nimport _ "github.com/prometheus/prometheus/discovery/dns"\n';
  await writeFile(path.join(source, "plugins/plugins.go"), plugins);
  return await buildGoProgram("prometheus", source, "./cmd/prometheus", 40 * minute);
};
