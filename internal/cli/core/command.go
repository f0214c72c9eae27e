package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Command is an entry in the table of commands.
type Command struct {
	Name    string
	Aliases []string
	Group   string
	Summary string
	Args    string // usage line
	About   string // longer description, optional
	Example []string
	Need    need
	// Stray is a hint shown for an argument that the command does not take.
	Stray string
	// Progress shows a progress line, for commands that may take long.
	Progress bool
	Make     func() Runner
	// AtEnd lists the command after the others of its group.
	AtEnd bool
	Sub   []*Command
}

// Runner is a command with its parsed flags.
type Runner interface {
	Run(ctx context.Context, s *Session) (Result, error)
}

// need is what a command requires before it can run.
type need int

const (
	NeedsNothing need = iota
	NeedsAPI
	NeedsLogin
	NeedsOrg
	NeedsSpace
)

// Words are the arguments of a command, by their names in the usage line.
type Words map[string]string

// simple is a command that is defined by its line in the table: the usage line names its
// arguments, and the fields of F are its flags.
type simple[F any] struct {
	usage string
	flags F
	words Words
	do    func(ctx context.Context, s *Session, w Words, f *F) (Result, error)
}

// NoFlags is for commands that have none.
type NoFlags struct{}

// ForceFlag is for commands that delete something.
type ForceFlag struct {
	Force bool `short:"f" long:"force" description:"Do not ask for confirmation"`
}

// Entry returns a line of the table of commands. The arguments in usage come before its
// flags; those in brackets are optional.
func Entry[F any](name, usage, summary string, n need, do func(context.Context, *Session, Words, *F) (Result, error), examples ...string) *Command {
	for i, e := range examples {
		examples[i] = strings.TrimSpace(name + " " + e)
	}
	return &Command{
		Name: name, Summary: summary, Args: usage, Need: n, Example: examples,
		Make: func() Runner { return &simple[F]{usage: usage, do: do} },
	}
}

// InGroup sets the group of some commands.
func InGroup(group string, all ...*Command) []*Command {
	for _, c := range all {
		c.Group = group
	}
	return all
}

// Alias gives a command further names.
func (c *Command) Alias(names ...string) *Command {
	c.Aliases = names
	return c
}

// Slow marks a command that may take long.
func (c *Command) Slow() *Command {
	c.Progress = true
	return c
}

// Explained adds a longer description.
func (c *Command) Explained(about string) *Command {
	c.About = about
	return c
}

func (c *simple[F]) FlagSet() any { return &c.flags }

// Take assigns the arguments to their names.
func (c *simple[F]) Take(args []string) error {
	c.words = Words{}
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

func (c *simple[F]) Run(ctx context.Context, s *Session) (Result, error) {
	return c.do(ctx, s, c.words, &c.flags)
}

// GUIDFlag is for commands that can show only the guid.
type GUIDFlag struct {
	GUID bool `long:"guid" description:"Show only the guid"`
}

// Last lists a command after the others of its group.
func (c *Command) Last() *Command {
	c.AtEnd = true
	return c
}

// Last lists commands after the others of their group.
func Last(lists ...[]*Command) []*Command {
	all := slices.Concat(lists...)
	for _, c := range all {
		c.AtEnd = true
	}
	return all
}

// The groups of commands.
const (
	GroupLogin    = "Log in"
	GroupApps     = "Apps"
	GroupInspect  = "Inspect apps"
	GroupRoutes   = "Routes"
	GroupServices = "Services"
	GroupOrgs     = "Orgs and spaces"
	GroupUsers    = "Users and roles"
	GroupQuotas   = "Quotas"
	GroupNetwork  = "Security groups and network policies"
	GroupSegments = "Isolation segments"
	GroupClients  = "OAuth clients"
	GroupOperate  = "Administration"
	GroupOther    = "Notifications and more"
)
