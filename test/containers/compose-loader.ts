/** The loader of Compose 2, which checks a file by its schema; Compose 2 itself takes an hour to build. */
import { buildGoProgram, goModule, runToEnd } from "../support/run-go.ts";

const loader = {
  module: "github.com/compose-spec/compose-go/v2@v2.9.0",
  sum: "h1:UHSv/QHlo6QJtrT4igF1rdORgIUhDo1gWuyJUoiNNIM=",
};

/** What both versions have to read alike. */
export interface LoadedService {
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly user?: string;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly privileged?: boolean;
  readonly read_only?: boolean;
  readonly pid?: string;
  readonly profiles?: readonly string[];
}
export type LoadedFile = { readonly services: Readonly<Record<string, LoadedService>> };

/** Rejects what the loader refuses or warns of. */
export const loadAsCompose2 = async (): Promise<LoadedFile> => {
  const program = await buildGoProgram("compose-spec", await goModule(loader.module, loader.sum), "./cmd", 600_000);
  const { code, stdout, output } = await runToEnd(program, ["--format", "json", "docker-compose.yml"], 60_000, {
    env: { PATH: process.env["PATH"] ?? "", COMPOSE_PROFILES: "*" },
  });
  if (code !== 0 || output.includes("warning"))
    throw new Error(`docker-compose.yml, as Compose 2 reads it:\n${output}`);
  return JSON.parse(stdout) as LoadedFile;
};

const compared = [
  ...(["image", "environment", "command", "entrypoint", "user", "cap_drop", "security_opt"] as const),
  ...(["privileged", "read_only", "pid", "profiles"] as const),
];

/** docker-compose 1.29 prints a colon in its place. */
const alike = (name: keyof LoadedService, value: unknown): unknown =>
  name === "security_opt" && Array.isArray(value)
    ? value.map((each) => String(each).replace(/^seccomp:/, "seccomp="))
    : value;

/** Without what is absent. */
export const readAlike = ({ services }: LoadedFile): object =>
  Object.fromEntries(
    Object.entries(services).map(([name, service]) => [
      name,
      Object.fromEntries(compared.flatMap((key) => (service[key] == null ? [] : [[key, alike(key, service[key])]]))),
    ]),
  );
