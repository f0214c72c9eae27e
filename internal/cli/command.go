package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// command is an entry in the table of commands.
type command struct {
	name    string
	aliases []string
	group   string
	summary string
	args    string // usage line
	about   string // longer description, optional
	example []string
	need    need
	// stray is a hint shown for an argument that the command does not take.
	stray string
	// progress shows a progress line, for commands that may take long.
	progress bool
	make     func() runner
	// atEnd lists the command after the others of its group.
	atEnd bool
	sub   []*command
}

// runner is a command with its parsed flags.
type runner interface {
	run(ctx context.Context, s *session) (result, error)
}

// need is what a command requires before it can run.
type need int

const (
	nothing need = iota
	anAPI
	aLogin
	anOrg
	aSpace
)

// words are the arguments of a command, by their names in the usage line.
type words map[string]string

// simple is a command that is defined by its line in the table: the usage line names its
// arguments, and the fields of F are its flags.
type simple[F any] struct {
	usage string
	flags F
	words words
	do    func(ctx context.Context, s *session, w words, f *F) (result, error)
}

// noFlags is for commands that have none.
type noFlags struct{}

// forceFlag is for commands that delete something.
type forceFlag struct {
	Force bool `short:"f" long:"force" description:"Do not ask for confirmation"`
}

// entry returns a line of the table of commands. The arguments in usage come before its
// flags; those in brackets are optional.
func entry[F any](name, usage, summary string, n need, do func(context.Context, *session, words, *F) (result, error), examples ...string) *command {
	for i, e := range examples {
		examples[i] = strings.TrimSpace(name + " " + e)
	}
	return &command{
		name: name, summary: summary, args: usage, need: n, example: examples,
		make: func() runner { return &simple[F]{usage: usage, do: do} },
	}
}

// inGroup sets the group of some commands.
func inGroup(group string, all ...*command) []*command {
	for _, c := range all {
		c.group = group
	}
	return all
}

// alias gives a command further names.
func (c *command) alias(names ...string) *command {
	c.aliases = names
	return c
}

// slow marks a command that may take long.
func (c *command) slow() *command {
	c.progress = true
	return c
}

// explained adds a longer description.
func (c *command) explained(about string) *command {
	c.about = about
	return c
}

func (c *simple[F]) FlagSet() any { return &c.flags }

// Take assigns the arguments to their names.
func (c *simple[F]) Take(args []string) error {
	c.words = words{}
	for field := range strings.FieldsSeq(c.usage) {
		name := strings.Trim(field, "[]")
		switch {
		case strings.HasPrefix(name, "-"):
			return tooMany(args)
		case len(args) > 0:
			c.words[name], args = args[0], args[1:]
		case !strings.HasPrefix(field, "["):
			return fmt.Errorf("the required argument '%s' was not provided", name)
		}
	}
	return tooMany(args)
}

func tooMany(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

func (c *simple[F]) run(ctx context.Context, s *session) (result, error) {
	return c.do(ctx, s, c.words, &c.flags)
}

// guidFlag is for commands that can show only the guid.
type guidFlag struct {
	GUID bool `long:"guid" description:"Show only the guid"`
}

// last lists a command after the others of its group.
func (c *command) last() *command {
	c.atEnd = true
	return c
}

// last lists commands after the others of their group.
func last(lists ...[]*command) []*command {
	all := slices.Concat(lists...)
	for _, c := range all {
		c.atEnd = true
	}
	return all
}

// The groups of commands.
const (
	groupLogin    = "Log in"
	groupApps     = "Apps"
	groupInspect  = "Inspect apps"
	groupRoutes   = "Routes"
	groupServices = "Services"
	groupOrgs     = "Orgs and spaces"
	groupUsers    = "Users and roles"
	groupQuotas   = "Quotas"
	groupNetwork  = "Security groups and network policies"
	groupSegments = "Isolation segments"
	groupClients  = "OAuth clients"
	groupOperate  = "Administration"
	groupOther    = "Notifications and more"
)
