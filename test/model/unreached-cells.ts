/** Cells that no search can ask for, and why. `*` stands for every word, `a|b` for either. */
interface Unreached {
  readonly cells: string;
  readonly why: string;
}

const calls: readonly Unreached[] = [
  { cells: "attach|finish|detach|reattach/unwanted/*/*", why: "a volume that is in use does not become unwanted" },
  { cells: "expand|modify/unwanted/*/*", why: "a volume that goes gives these up, or is kept by their open call" },
  { cells: "validate/unwanted/*/*", why: "a volume that was only asked about goes at once" },
  { cells: "*/*/done/open", why: "an answer of the plugin ends its call" },
  { cells: "finish/wanted/done/*", why: "a finished attach is not looked up: the detach follows" },
  { cells: "finish/wanted/*/certain", why: "an attach that is finished had no answer" },
  { cells: "finish/wanted/unsent|stuck/doubtful", why: "what was not sent, and what hangs, leaves the call open" },
  { cells: "delete|detach|expand|modify|validate/*/full/*", why: "only a thing that is new takes room" },
  { cells: "create/unwanted/full/*", why: "of a volume that is not wanted it is the same as no answer" },
  {
    cells: "attach|finish|reattach|expand|modify/wanted/held off/open",
    why: "the plugin itself says so, which ends its call",
  },
  {
    cells: "attach|finish|reattach|delete|modify/*/stuck/certain|doubtful",
    why: "only a call that hangs, which is open",
  },
  { cells: "validate/*/stuck/*", why: "a question is not kept open" },
  { cells: "validate/*/*/open", why: "a question has no instance" },
];

const ofClaims: readonly Unreached[] = [
  { cells: "RELEASED|FAILED|FENCED/*", why: "no record has a claim that is over" },
  { cells: "ATTACHING|DETACHING/fenced", why: "where nodes are fenced, the plugin takes no attaches" },
  {
    cells: "ATTACHING|OFFERED|ACTIVE|RELEASING|DETACHING/grant_attach|grant_offer",
    why: "asked of the queue alone",
  },
  {
    cells: "QUEUED|OFFERED|ACTIVE|RELEASING|DETACHING/attached|attach_refused|attach_owed|attach_unknown",
    why: "asked of claims that are ATTACHING",
  },
  {
    cells: "QUEUED|ATTACHING|OFFERED|ACTIVE|RELEASING/detached|detach_unknown",
    why: "asked of claims that are DETACHING",
  },
  { cells: "ATTACHING/published|not_mounted|permit_refused|publish_unknown", why: "no permit was made" },
  { cells: "ATTACHING/released|release_unknown", why: "no release was asked for" },
  { cells: "QUEUED/not_mounted", why: "where commits are lost, each stage is done" },
  { cells: "DETACHING/permit_refused", why: "where permits are refused, the plugin takes no attaches" },
];

export const unreached: readonly Unreached[] = [...calls, ...ofClaims];
