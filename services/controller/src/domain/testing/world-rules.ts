import { attachAbandoned, attachAnswered, detachAnswered, detachStarted } from "../attachment/attach-change.ts";
import { attachResumed } from "../attachment/attach-pause.ts";
import {
  notMounted,
  offerAgain,
  permitRefused,
  publicationLost,
  published,
  publishUnknown,
  released,
  releaseUnknown,
  releaseWanted,
} from "../claim/claim-change.ts";
import { expireSet, grantSet, spreadFailure } from "../claim/claim-set-change.ts";
import { permitFor } from "../claim/permit.ts";
import { claimAhead, keptBack, permitAhead } from "../claim/permit-ahead.ts";
import { planSteps } from "../steps.ts";
import { createAnswered, deleteAnswered, deleteWanted } from "../volume/volume-change.ts";

/** The decisions under test, by name, so that a test can put a wrong one in the place of any of them. */
export const domainRules = {
  attachAbandoned,
  attachAnswered,
  attachResumed,
  claimAhead,
  createAnswered,
  deleteAnswered,
  deleteWanted,
  detachAnswered,
  detachStarted,
  expireSet,
  grantSet,
  keptBack,
  notMounted,
  offerAgain,
  permitAhead,
  permitFor,
  permitRefused,
  planSteps,
  publicationLost,
  published,
  publishUnknown,
  released,
  releaseUnknown,
  releaseWanted,
  spreadFailure,
} as const;

export type Rules = typeof domainRules;
