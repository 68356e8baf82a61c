/** Each shell asks the command line itself (`holdfast complete-line`), so that a new command needs no new script. */
export const completionScripts: Readonly<Record<"bash" | "zsh" | "fish", string>> = {
  bash: `# holdfast completion for bash: source <(holdfast completion bash)
_holdfast() {
  local IFS=$'\\n'
  COMPREPLY=($(holdfast complete-line -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [ \${#COMPREPLY[@]} -eq 0 ] && compopt -o default
}
complete -F _holdfast holdfast
`,
  zsh: `#compdef holdfast
# holdfast completion for zsh: source <(holdfast completion zsh)
_holdfast() {
  local -a names
  names=("\${(@f)$(holdfast complete-line -- "\${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
  if [[ -n "\${names[1]}" ]]; then compadd -a names; else _files; fi
}
compdef _holdfast holdfast
`,
  fish: `# holdfast completion for fish: holdfast completion fish | source
function __holdfast_complete
  set -l words (commandline -opc) (commandline -ct)
  holdfast complete-line -- $words[2..-1] 2>/dev/null
end
complete -c holdfast -a "(__holdfast_complete)"
`,
};
