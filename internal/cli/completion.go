package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// completeCommand is the command that shell completion scripts call.
const completeCommand = "__complete"

var completion = &command{
	name: "completion", group: groupOther, summary: "Print a shell completion script", args: "bash|zsh|fish", example: []string{"completion bash > /etc/bash_completion.d/ingot"}, make: func() runner { return &completionCommand{} },
}

type completionCommand struct {
	Args struct {
		Shell string `positional-arg-name:"SHELL" required:"yes"`
	} `positional-args:"yes"`
}

// script is a completion script for a shell.
type script struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (s *script) show(p *term.Printer) { p.Println(strings.TrimRight(s.Script, "\n")) }

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

func (c *completionCommand) run(_ context.Context, s *session) (result, error) {
	text, ok := scripts[c.Args.Shell]
	if !ok {
		return nil, &usage{didYouMean(fmt.Sprintf("%q is not a supported shell. Supported shells: bash, zsh, fish", c.Args.Shell), c.Args.Shell, []string{"bash", "zsh", "fish"}), "completion"}
	}
	return &script{c.Args.Shell, strings.ReplaceAll(text, "NAME", s.w.Program)}, nil
}

// complete writes the candidates for the next word, one per line. The last of the
// given words is the one being typed.
func (w *Env) complete(ctx context.Context, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	current := words[len(words)-1]
	for _, word := range w.candidates(ctx, words[:len(words)-1], current) {
		if strings.HasPrefix(word, current) {
			fmt.Fprintln(w.Out, word)
		}
	}
}

func (w *Env) candidates(ctx context.Context, before []string, current string) []string {
	if len(before) == 0 {
		var names []string
		for _, o := range w.Others {
			names = append(names, o.Name)
		}
		for _, c := range commands {
			names = append(names, c.name)
		}
		slices.Sort(names)
		return names
	}
	if before[0] == "help" {
		return w.candidates(ctx, nil, current)
	}
	c := find(before[0])
	if c == nil || len(before) == 1 && strings.HasPrefix(current, "-") && len(c.sub) > 0 {
		return wordsOfOther(w.Others, before, current)
	}
	if len(c.sub) > 0 {
		var names []string
		for _, s := range c.sub {
			word := strings.TrimPrefix(s.name, c.name+" ")
			if len(before) > 1 && before[1] == word {
				return s.flagWords(w)
			}
			names = append(names, word)
		}
		return names
	}
	if strings.HasPrefix(current, "-") {
		return c.flagWords(w)
	}
	first := firstWord(c.args)
	switch {
	case c.name == "completion":
		return []string{"bash", "fish", "zsh"}
	case len(before) == 1 && strings.Trim(first, "[]") == "APP":
		return w.names(ctx, "/v3/apps")
	case strings.Contains(c.args, "-e OFFERING") && before[len(before)-1] == "-e":
		return w.names(ctx, "/v3/service_offerings")
	case len(before) == 1 && first == "OFFERING":
		return w.names(ctx, "/v3/service_offerings")
	case len(before) == 2 && strings.HasPrefix(c.args, "OFFERING PLAN"), len(before) > 2 && first == "OFFERING" && before[len(before)-1] == "-p":
		return w.names(ctx, "/v3/service_plans", "service_offering_names", before[1])
	case len(before) == 1 && first == "SERVICE", len(before) == 2 && strings.HasSuffix(c.name, "bind-service"):
		return w.names(ctx, "/v3/service_instances")
	}
	return nil
}

// wordsOfOther returns the candidates for a command that is not part of the client: its
// subcommands or flags.
func wordsOfOther(all []Other, before []string, current string) []string {
	i := slices.IndexFunc(all, func(o Other) bool { return o.Name == before[0] })
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

func (c *command) flagWords(w *Env) []string {
	parser, err := c.parser(w, c.make(), &output{})
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

// names requests names from the API, and returns none when that takes too long.
func (w *Env) names(ctx context.Context, path string, query ...string) []string {
	cfg, err := config.Load(config.Path(w.Getenv))
	if err != nil || cfg.API == "" || cfg.Space.GUID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c := client.New(cfg.API, cfg.SkipSSLValidation, client.Tokens{Access: cfg.AccessToken, Refresh: cfg.RefreshToken})
	c.Login = cfg.Links.Login
	defer c.Close()
	s := &session{w: w, cfg: cfg, api: c}
	things, err := client.List[client.Thing](ctx, c, path, s.in(append([]string{"order_by", "name", "per_page", "100"}, query...)...))
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range things {
		names = append(names, t.Name)
	}
	return names
}
