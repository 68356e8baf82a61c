/**
 * Renews the certificate of this process before it ends, by whoever issues it.
 *
 * RC1 It is asked for after two thirds of its life, and a little later at random, so that a fleet that was enrolled together does not ask
 *     together. RC2 What could not be renewed is asked for again, the sooner the nearer the end is, and is told in the log and as a metric
 *     from the first failure on. RC3 Each certificate has a key of its own, which is on disk before it is used.
 * RC4 What another program has put there meanwhile counts as renewed.
 */
import type { Clock } from "../async/clock.ts";
import type { Logger } from "../log/logger.ts";
import type { Metrics } from "../metrics.ts";
import type { CertificateKeeper } from "./certificate-keeper.ts";
import { writeCredentials } from "./credential-dir.ts";
import { type CredentialTexts, isUnusable } from "./credential-files.ts";
import { type Credentials, judgeCredentials, type WantedName } from "./judge-credentials.ts";
import { generateKey } from "./make-certificate.ts";

export interface RenewalDeps {
  readonly keeper: Pick<CertificateKeeper, "current">;
  readonly directory: string;
  readonly wanted: WantedName;
  /** Has the public key of this PEM certified; throws when it is refused. */
  readonly certify: (key: string) => Promise<Omit<CredentialTexts, "key">>;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly random: () => number;
  readonly log: Logger;
  readonly metrics?: Metrics | undefined;
  readonly signal: AbortSignal;
}

type Life = Pick<Credentials, "notBefore" | "notAfter">;

/** RC1: of its life, and at most so much more at random. */
const dueAfter = 2 / 3;
const spread = 1 / 15;
/** RC2: of what is left, between these bounds. */
const againAfter = 1 / 20;
const soonestMs = 1_000;
const latestMs = 10 * 60_000;
/** A timer is not set for longer: clocks are put right meanwhile. */
const lookMs = 3_600_000;

export const renewalDue = ({ notBefore, notAfter }: Life, random: () => number): number =>
  notBefore + (notAfter - notBefore) * (dueAfter + spread * random());

const pauseAfterFailure = ({ notAfter }: Life, now: number): number =>
  Math.min(latestMs, Math.max(soonestMs, (notAfter - now) * againAfter));

/** Rejects when aborted; never resolves. */
export const renewCertificate = async (deps: RenewalDeps): Promise<never> => {
  const { keeper, directory, wanted, certify, clock, random, log, metrics, signal } = deps;
  let failing = false;
  metrics?.gauge({
    name: "holdfast_certificate_renewal_failing",
    help: "1: the certificate of this process is due to be renewed, and the last attempt failed.",
    collect: (gauge) => gauge.set({}, failing ? 1 : 0),
  });

  const renew = async (): Promise<Life> => {
    const key = generateKey();
    const texts = { ...(await certify(key)), key };
    const judged = judgeCredentials(texts, wanted);
    if (isUnusable(judged)) throw new Error(`the answer cannot be used: ${judged.wrong}`);
    writeCredentials(directory, texts); // RC3
    return judged;
  };

  let life: Life = keeper.current();
  let due = renewalDue(life, random);
  for (;;) {
    const found = keeper.current();
    if (found.notAfter > life.notAfter) {
      life = found; // RC4
      due = renewalDue(life, random);
      failing = false;
    }
    const now = clock.now();
    if (now < due) {
      await clock.sleep(Math.min(lookMs, due - now), signal);
      continue;
    }
    try {
      life = await renew();
      due = renewalDue(life, random);
      failing = false;
      log.info("the certificate was renewed", { not_after: new Date(life.notAfter).toISOString() });
    } catch (error) {
      signal.throwIfAborted();
      failing = true;
      const ends = new Date(life.notAfter).toISOString();
      log.error("the certificate could not be renewed; it is tried again", { error, not_after: ends });
      await clock.sleep(pauseAfterFailure(life, clock.now()), signal); // RC2
    }
  }
};
