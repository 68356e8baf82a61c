/** Why a reference gives no value: for the log of the controller alone, since it tells whether a path exists. Never a value, nor a part. */
export class SecretUnusable extends Error {
  constructor(why: string) {
    super(why);
    this.name = "SecretUnusable";
  }
}

/** A parse error quotes the text around it, so that it is not handed on. */
export const parseSecretText = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    throw new SecretUnusable('is no JSON; it has to be one object of texts, such as {"user": "…", "key": "…"}');
  }
};
