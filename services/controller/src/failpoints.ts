/**
 * Where this process may be killed by a test: between what is durable and the call that follows, and between the call's answer
 * and the commit of it. Off unless HOLDFAST_FAILPOINTS names one: `controller.attach.after-commit=kill`, or `=kill@3` for the third
 * time it is passed.
 */
import { type ReconcileFailpoint, reconcileFailpoints, snapshotFailpoints } from "./reconcile/failpoints.ts";

export type FailpointName = ReconcileFailpoint;

export const failpointNames: readonly FailpointName[] = [...reconcileFailpoints, ...snapshotFailpoints];
