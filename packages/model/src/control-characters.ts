/** Characters that no name and no short text may hold, half ones too: keys of records cannot hold them, and one line of text ends at some of them. */
const control = /[\p{Cc}\p{Cs}]/u;

export const holdsControl = (text: string): boolean => control.test(text);
