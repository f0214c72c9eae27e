package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/version"
	"ingot/internal/cli"
)

// options are all commands with their flags.
type options struct {
	serverOptions
	Broker  brokerOptions `command:"broker" description:"Check service brokers"`
	Man     manOptions    `command:"man" description:"Write manual pages" long-description:"Prints the manual page ingot(1) for man, as in 'ingot man | man -l -', or writes the pages of all commands into a directory."`
	Version struct{}      `command:"version" description:"Show the version"`
	Help    struct{}      `command:"help" description:"Show help for a command"`
}

// serverCommands are the commands of serverOptions, which only the program for Linux has.
var serverCommands = []string{
	"up", "down", "reload", "keys", "notifications", "demo", "blob", "db", "backup", "restore", "support-bundle",
}

// linuxHere is how other systems run Linux.
var linuxHere = map[string]string{
	"darwin": ", or here in a virtual machine such as Lima", "windows": ", or here in WSL 2 ('wsl --install')",
}

// serverName is the name of the server's data directory.
const serverName = "ingot"

// defaultDataDir returns the default data directory for a server of this name, or
// "" when the environment names no directory for it, or no server runs on this system.
func (p *process) defaultDataDir(name string) string {
	switch {
	case runtime.GOOS != "linux":
		return ""
	case p.uid == 0:
		return "/var/lib/" + name
	case filepath.IsAbs(p.getenv("XDG_DATA_HOME")):
		return filepath.Join(p.getenv("XDG_DATA_HOME"), name)
	case filepath.IsAbs(p.getenv("HOME")):
		return filepath.Join(p.getenv("HOME"), ".local", "share", name)
	}
	return ""
}

// usageError is an incorrect invocation.
type usageError struct {
	problem string
	command string // command whose help is suggested
}

func (e *usageError) Error() string { return e.problem }

// errHelp is a request for help; its text is the help.
type errHelp struct{ text string }

func (e *errHelp) Error() string { return e.text }

// parse reads arguments and environment. It returns the command as its words.
func (p *process) parse() (*options, string, error) {
	if runtime.GOOS != "linux" && slices.Contains(serverCommands, p.args[0]) {
		return nil, "", fmt.Errorf("'ingot %s' needs Linux. Run it on a Linux machine%s, then log in to that server with "+
			"'ingot login -a URL'", p.args[0], linuxHere[runtime.GOOS])
	}
	o := &options{}
	parser := flags.NewNamedParser("ingot", flags.HelpFlag|flags.PassDoubleDash)
	parser.ShortDescription = "Cloud Foundry compatible application platform"
	if _, err := parser.AddGroup("Commands", "", o); err != nil {
		return nil, "", err
	}
	all := optionsOf(parser.Command)
	p.applyDefaults(all)
	parser.UnknownOptionHandler = func(name string, _ flags.SplitArgument, _ []string) ([]string, error) {
		return nil, errors.New(unknownFlag(name, all))
	}
	rest, err := parser.ParseArgs(p.args)
	command := active(parser.Command)
	if help := (*flags.Error)(nil); errors.As(err, &help) && help.Type == flags.ErrHelp {
		return nil, command, &errHelp{helpText(parser, p.helpWidth())}
	}
	if rest = o.arguments(command, rest); err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q", rest[0])
	}
	if err != nil {
		return nil, command, &usageError{cli.FlagError(err), command}
	}
	return o, command, p.ignoreEmpty(all)
}

// ignoreEmpty restores the default where a variable is set but empty: that counts
// as unset, while a flag with an empty value is intended.
func (p *process) ignoreEmpty(all []*flags.Option) error {
	off := "false"
	for _, opt := range all {
		if !opt.IsSetDefault() || opt.EnvDefaultKey == "" || p.getenv(opt.EnvDefaultKey) != "" {
			continue
		}
		if len(opt.Default) > 0 {
			if err := opt.Set(&opt.Default[0]); err != nil {
				return err
			}
		} else if opt.Value() == true {
			if err := opt.Set(&off); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyDefaults sets the defaults of the parser, from the environment of the
// process.
func (p *process) applyDefaults(all []*flags.Option) {
	known := serverDefaults()
	for _, opt := range all {
		value := known[opt.LongName]
		if own, ok := opt.Field().Tag.Lookup("own-default"); ok { // a flag that other commands share
			value = own
		}
		if opt.LongName == "data-dir" {
			value = p.defaultDataDir(cmp.Or(value, serverName))
		}
		if value != "" {
			opt.Default, opt.DefaultMask = []string{value}, value
		}
		if other := opt.Field().Tag.Get("other-env"); other != "" && p.getenv(other) != "" {
			opt.Default = []string{p.getenv(other)}
		}
		if value := p.getenv(opt.EnvDefaultKey); value != "" && opt.EnvDefaultKey != "" {
			opt.Default = []string{value}
		}
	}
}

func optionsOf(c *flags.Command) []*flags.Option {
	all := ownOptions(c)
	for _, sub := range c.Commands() {
		all = append(all, optionsOf(sub)...)
	}
	return all
}

// ownOptions returns the options of a command without those of its subcommands.
func ownOptions(c *flags.Command) []*flags.Option {
	var all []*flags.Option
	for _, g := range c.Groups() {
		all = append(all, g.Options()...)
	}
	return append(all, c.Options()...)
}

// active returns the given command as its words.
func active(c *flags.Command) string {
	var words []string
	for c = c.Active; c != nil; c = c.Active {
		words = append(words, c.Name)
	}
	return strings.Join(words, " ")
}

func versionText() string {
	return fmt.Sprintf("ingot %s (data format %d, %s, %s/%s)\n", version.Version, version.DataFormat, runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}
