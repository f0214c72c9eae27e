package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// completeCommand is the command that shell completion scripts call.
const completeCommand = "__complete"

var completion = core.InGroup(core.GroupOther,
	core.Entry("completion", "bash|zsh|fish", "Print a shell completion script", core.NeedsNothing, printCompletion,
		"bash > /etc/bash_completion.d/ingot"))

type completionFlags struct {
	Args struct {
		Shell string `positional-arg-name:"SHELL" required:"yes"`
	} `positional-args:"yes"`
}

// script is a completion script for a shell.
type script struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (s *script) Show(p *term.Printer) { p.Println(strings.TrimRight(s.Script, "\n")) }

var scripts = map[string]string{
	"bash": `_NAME_complete() {
  local IFS=$'\n'
  COMPREPLY=($(NAME __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _NAME_complete NAME
`,
	"zsh": `#compdef NAME
_NAME() {
  local -a words_found
  words_found=("${(@f)$(NAME __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$words_found" ]]; then compadd -a words_found; else _files; fi
}
# In a folder of fpath, this file is the function itself. When it is sourced, it only registers it.
if [[ "$funcstack[1]" == "_NAME" ]]; then _NAME; else compdef _NAME NAME; fi
`,
	"fish": `function __NAME_complete
  set -l words (commandline -opc)
  NAME __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c NAME -a '(__NAME_complete)'
`,
}

func printCompletion(_ context.Context, s *core.Session, _ core.Words, f *completionFlags) (core.Result, error) {
	text, ok := scripts[f.Args.Shell]
	if !ok {
		return nil, &core.Usage{Problem: core.DidYouMean(
			fmt.Sprintf("%q is not a supported shell. Supported shells: bash, zsh, fish", f.Args.Shell), f.Args.Shell,
			[]string{"bash", "zsh", "fish"}), Command: "completion"}
	}
	return &script{f.Args.Shell, strings.ReplaceAll(text, "NAME", s.Env.Program)}, nil
}

// complete writes the candidates for the next word, one per line. The last of the
// given words is the one being typed.
func complete(ctx context.Context, w *core.Env, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	current := words[len(words)-1]
	for _, word := range candidates(ctx, w, words[:len(words)-1], current) {
		if strings.HasPrefix(word, current) {
			fmt.Fprintln(w.Out, word)
		}
	}
}

func candidates(ctx context.Context, w *core.Env, before []string, current string) []string {
	if len(before) == 0 {
		var names []string
		for _, o := range w.Others {
			names = append(names, o.Name)
		}
		for _, c := range commands {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return names
	}
	if before[0] == "help" {
		return candidates(ctx, w, nil, current)
	}
	if before[len(before)-1] == ContextFlag {
		return contextNames(w)
	}
	before, named := withoutContext(before)
	if len(before) == 0 {
		return candidates(ctx, w, nil, current)
	}
	c := find(before[0])
	if c == nil || len(before) == 1 && strings.HasPrefix(current, "-") && len(c.Sub) > 0 {
		return wordsOfOther(w.Others, before, current)
	}
	if len(c.Sub) > 0 {
		var names []string
		for _, s := range c.Sub {
			word := strings.TrimPrefix(s.Name, c.Name+" ")
			switch {
			case len(before) < 2 || before[1] != word:
			case strings.HasPrefix(current, "-") || !takesContext(s, len(before)-2):
				return flagWords(s, w)
			default:
				return contextNames(w)
			}
			names = append(names, word)
		}
		return names
	}
	if strings.HasPrefix(current, "-") {
		return flagWords(c, w)
	}
	first := firstWord(c.Args)
	switch {
	case c.Name == "completion":
		return []string{"bash", "fish", "zsh"}
	case len(before) == 1 && strings.Trim(first, "[]") == "APP":
		return apiNames(ctx, w, named, "/v3/apps")
	case strings.Contains(c.Args, "-e OFFERING") && before[len(before)-1] == "-e":
		return apiNames(ctx, w, named, "/v3/service_offerings")
	case len(before) == 1 && first == "OFFERING":
		return apiNames(ctx, w, named, "/v3/service_offerings")
	case len(before) == 2 && strings.HasPrefix(c.Args, "OFFERING PLAN"), len(before) > 2 && first == "OFFERING" &&
		before[len(before)-1] == "-p":
		return apiNames(ctx, w, named, "/v3/service_plans", "service_offering_names", before[1])
	case len(before) == 1 && first == "SERVICE", len(before) == 2 && strings.HasSuffix(c.Name, "bind-service"):
		return apiNames(ctx, w, named, "/v3/service_instances")
	}
	return nil
}

// withoutContext removes the flag --context and its value, which it returns.
func withoutContext(words []string) (rest []string, name string) {
	for i := 0; i < len(words); i++ {
		value, joined := strings.CutPrefix(words[i], ContextFlag+"=")
		switch {
		case joined:
			name = value
		case words[i] == ContextFlag && i+1 < len(words):
			name = words[i+1]
			i++
		default:
			rest = append(rest, words[i])
		}
	}
	return rest, name
}

// takesContext reports whether an argument of a command is the name of an existing context.
func takesContext(c *core.Command, argument int) bool {
	return argument == 0 && strings.HasPrefix(strings.Trim(c.Args, "["), "CONTEXT")
}

// contextNames returns the names of the contexts.
func contextNames(w *core.Env) []string {
	s, err := core.OpenContext(w, "")
	if err != nil {
		return nil
	}
	defer s.API.Close()
	var names []string
	for _, c := range s.Contexts() {
		names = append(names, c.Name())
	}
	return names
}

// wordsOfOther returns the candidates for a command that is not part of the client: its
// subcommands or flags.
func wordsOfOther(all []core.Other, before []string, current string) []string {
	i := slices.IndexFunc(all, func(o core.Other) bool { return o.Name == before[0] })
	switch {
	case i < 0:
		return nil
	case len(before) > 1 && len(all[i].Sub) > 0:
		return wordsOfOther(all[i].Sub, before[1:], current)
	case strings.HasPrefix(current, "-"):
		return all[i].Flags
	}
	var names []string
	for _, s := range all[i].Sub {
		names = append(names, s.Name)
	}
	return names
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func flagWords(c *core.Command, w *core.Env) []string {
	parser, err := parserOf(c, w, c.Make(), &core.Output{})
	if err != nil {
		return nil
	}
	words := []string{"--help"}
	for _, g := range parser.Groups() {
		for _, o := range g.Options() {
			if o.LongName != "" && o.LongName != "help" {
				words = append(words, "--"+o.LongName)
			}
			if o.ShortName != 0 && o.LongName == "" {
				words = append(words, "-"+string(o.ShortName))
			}
		}
	}
	slices.Sort(words)
	return words
}

// apiNames requests names from the API, and returns none when that takes too long.
func apiNames(ctx context.Context, w *core.Env, named, path string, query ...string) []string {
	s, err := core.OpenContext(w, named)
	if err != nil || s.Config.API == "" || s.Config.Space.GUID == "" {
		return nil
	}
	defer s.API.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	things, err := client.List[cfapi.Thing](ctx, s.API, path, s.InSpace(append([]string{"order_by", "name", "per_page",
		"100"}, query...)...))
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range things {
		names = append(names, t.Name)
	}
	return names
}
