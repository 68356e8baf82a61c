/** A word that has to be seen nowhere, or has to be found, and the forms in which a program may let it out. */

const base64Within = (text: string, offset: number, encoding: "base64" | "base64url"): string => {
  // Without the characters that depend on what stands beside it.
  const padded = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
  const [first, last] = [Math.ceil((offset * 8) / 6), Math.floor((padded.length * 8) / 6)];
  return padded.toString(encoding).slice(first, last);
};

/** The five in which something is planted; other ones are looked for as well. */
export const plantedForms = {
  raw: (text: string) => text,
  base64: (text: string) => base64Within(text, 0, "base64"),
  hex: (text: string) => Buffer.from(text).toString("hex"),
  URL: (text: string) => encodeURIComponent(text),
  JSON: (text: string) => JSON.stringify(text).slice(1, -1),
} as const;

export type FormName = keyof typeof plantedForms;
export const formNames = Object.keys(plantedForms) as readonly FormName[];

export const formsOf = (text: string): readonly string[] => formNames.map((name) => plantedForms[name](text));

const soughtForms = (text: string): readonly string[] => [
  ...formsOf(text),
  Buffer.from(text).toString("hex").toUpperCase(),
  ...([0, 1, 2] as const).flatMap((offset) => [
    base64Within(text, offset, "base64"),
    base64Within(text, offset, "base64url"),
  ]),
];

/** Every canary begins with it, so that one search finds them all, also one that was cut. No form of it is another form. */
const stem = 'cAnArY/7f3+"\\=';
export const canaryOf = (field: string): string => `${stem}${field}`;

/** Of what is no secret, and yet shown by its own API and kept by its own records alone. */
const privateStem = "pRiVaTe/7f3+=";
export const privateOf = (field: string): string => `${privateStem}${field}`;

/** What a sink is shown to yield. */
export const plantedIn = (sink: string): string => `pLaNt/7f3+"\\=${sink}`;

/** How every identity token begins, whatever it says. */
export const tokenStem = Buffer.from('{"alg":"ES256","typ":"JWT"').toString("base64url").slice(0, -1);

/** A core is too large for a text. */
export type Place = string | Buffer;

const unescaped = (text: string): string => text.replace(/\\(["\\/])/g, "$1");

/** A word that was written as JSON, and that into JSON again, is there all the same. */
const layersOf = (place: Place): readonly Place[] => {
  if (typeof place !== "string" || !place.includes("\\")) return [place];
  const once = unescaped(place);
  return [place, once, unescaped(once)];
};

/** The texts of these that are there. */
export const thereOf = (place: Place, texts: readonly string[]): readonly string[] => {
  const layers = layersOf(place);
  return texts.filter((text) => layers.some((layer) => layer.includes(text)));
};

const soughtSecrets = [...new Set([...soughtForms(stem), ...soughtForms(tokenStem)])];
const soughtPrivate = [...new Set(soughtForms(privateStem))];

const excerpt = (layer: Place, form: string): string => {
  const at = layer.indexOf(form);
  return `…${layer.toString("latin1", Math.max(0, at - 120), at + form.length + 60)}…`;
};

const hitsOf = (place: Place, sought: readonly string[]): readonly string[] =>
  layersOf(place).flatMap((layer) =>
    sought.filter((form) => layer.includes(form)).map((form) => excerpt(Buffer.from(layer), form)),
  );

/** Where a secret shows, with its surroundings, which name the field. */
export const secretHits = (place: Place): readonly string[] => hitsOf(place, soughtSecrets);
export const privateHits = (place: Place): readonly string[] => hitsOf(place, soughtPrivate);
