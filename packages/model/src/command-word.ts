/** A word of a command line that a person shall run: quoted for a shell where it has to be. */
export const commandWord = (text: string): string =>
  /^[\w@%+=:,.<>-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
