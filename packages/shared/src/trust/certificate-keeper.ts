/**
 * The certificate of this process, as it stands in files that another program renews.
 *
 * CK1 What is in use is a whole: the key is the leaf's, the leaf is this process's, and it leads to one of the roots.
 * CK2 Files that are no such whole change nothing: the last good ones stay, and the log says once what is wrong.
 * CK3 Files that were not written between two looks are taken, so that one in the middle of its writing is not. CK4 A certificate whose time has passed
 *     or has not come takes the place of none that is valid.
 */
import { hash } from "node:crypto";
import { watch } from "node:fs";
import { type Clock, systemClock } from "../async/clock.ts";
import { createEmitter } from "../async/emitter.ts";
import { ConfigError } from "../config/config-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import {
  directoryOf,
  type FoundFiles,
  isUnusable,
  readCredentialFiles,
  takeApart,
  type Unusable,
} from "./credential-files.ts";
import { type Credentials, judgeCredentials, judgeTime, type WantedName } from "./judge-credentials.ts";
import { formatSpiffeId } from "./spiffe-id.ts";

export interface CertificateKeeperOptions {
  /** A directory, or one file. */
  readonly path: string;
  /** For messages: the setting that names it. */
  readonly setting: string;
  readonly wanted: WantedName;
  readonly log: Logger;
  readonly metrics?: Metrics;
  readonly clock?: Clock;
}

export interface CertificateKeeper {
  /** Those that new connections use. */
  current(): Credentials;
  /** Called after `current` has changed. */
  onChange(listener: () => void): () => void;
  stop(): void;
}

/** Between two looks at files that change. */
const settleMs = 200;
/** Without a word from the file system. */
const lookMs = 5_000;
/** So long the certificate and its key may be replaced one after the other before it is worth a line. */
const patienceMs = 2_000;

export function createCertificateKeeper(options: CertificateKeeperOptions): CertificateKeeper {
  const { path, setting, wanted, clock = systemClock } = options;
  const log = options.log.child({ certificate: path });
  const changed = createEmitter();

  const judge = ({ contents }: FoundFiles): Credentials | Unusable => {
    if (isUnusable(contents)) return contents;
    const texts = takeApart(contents);
    return isUnusable(texts) ? texts : judgeCredentials(texts, wanted);
  };

  const atStart = readCredentialFiles(path);
  const first = judge(atStart);
  if (isUnusable(first)) throw unusable(setting, path, first.wrong);
  const untimely = judgeTime(first, clock.now());
  if (untimely !== undefined)
    log.error("the certificate is of no use now; it is replaced as soon as its files are", { why: untimely });

  let inUse = { credentials: first, key: keyOf(atStart) };
  let seen = "";
  let wrong: { readonly key: string; readonly since: number; told: boolean } | undefined;
  measure(options.metrics, () => ({ notAfter: inUse.credentials.notAfter, refused: wrong?.told === true }));

  const take = (credentials: Credentials, key: string): void => {
    inUse = { credentials, key };
    wrong = undefined;
    const { leaf, notAfter } = credentials;
    log.info("the certificate was replaced", {
      id: formatSpiffeId(leaf.id),
      serial: leaf.serial,
      not_after: new Date(notAfter).toISOString(),
    });
    changed.tell();
  };

  /** CK2. Answers after how long to look again. */
  const refuse = (key: string, why: string): number => {
    const now = clock.monotonic();
    if (wrong?.key !== key) wrong = { key, since: now, told: false };
    if (wrong.told) return lookMs;
    if (now - wrong.since < patienceMs) return patienceMs;
    wrong.told = true;
    log.error("the files of the certificate cannot be used; the last good ones stay in use", { why });
    return lookMs;
  };

  const look = (): number => {
    const files = readCredentialFiles(path);
    const key = keyOf(files);
    const settled = files.stamp === seen; // CK3
    seen = files.stamp;
    if (key === inUse.key) {
      wrong = undefined;
      return lookMs;
    }
    if (!settled) return settleMs;
    const found = judge(files);
    if (isUnusable(found)) return refuse(key, found.wrong);
    const now = clock.now();
    const late = judgeTime(found, now);
    if (late !== undefined && judgeTime(inUse.credentials, now) === undefined) return refuse(key, late); // CK4
    take(found, key);
    return lookMs;
  };

  let stopped = false;
  let cancel: () => void = () => undefined;
  let due = Number.POSITIVE_INFINITY;
  const lookIn = (ms: number): void => {
    cancel();
    due = clock.monotonic() + ms;
    if (!stopped) cancel = clock.timer(ms, () => lookIn(look()));
  };
  /** Never later than it was due: a directory in which something changes all the time is looked at all the same. */
  const lookSoon = (): void => {
    if (due > clock.monotonic() + settleMs) lookIn(settleMs);
  };
  const watcher = watchDirectory(directoryOf(path), lookSoon);
  lookIn(lookMs);

  return {
    current: () => inUse.credentials,
    onChange: changed.on,
    stop() {
      stopped = true;
      cancel();
      watcher();
      changed.clear();
    },
  };
}

const keyOf = ({ contents }: FoundFiles): string =>
  isUnusable(contents) ? contents.wrong : hash("sha256", JSON.stringify(contents), "hex");

/** Where the file system tells nothing, the looks on the clock are enough. */
function watchDirectory(directory: string, onEvent: () => void): () => void {
  try {
    const watcher = watch(directory, { persistent: false }, onEvent);
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

function measure(
  metrics: Metrics | undefined,
  state: () => { readonly notAfter: number; readonly refused: boolean },
): void {
  metrics?.gauge({
    name: "holdfast_certificate_end_seconds",
    help: "When the certificate of this process ends, or the first of those that it rests on; seconds since 1970.",
    collect: (gauge) => gauge.set({}, state().notAfter / 1000),
  });
  metrics?.gauge({
    name: "holdfast_certificate_files_refused",
    help: "1: the files of the certificate cannot be used, and the last good ones are in use.",
    collect: (gauge) => gauge.set({}, state().refused ? 1 : 0),
  });
}

const unusable = (setting: string, path: string, why: string): ConfigError =>
  new ConfigError([
    {
      field: setting,
      description: `= ${path} cannot be used: ${why}; it has to hold tls.crt, tls.key and ca.crt, or be one file with all of them`,
    },
  ]);
