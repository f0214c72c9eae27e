package core

import (
	"context"
	"fmt"
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
	need    need
	// Stray is a hint shown for an argument that the command does not take.
	Stray string
	// progress shows a progress line, for commands that may take long.
	progress bool
	Make     func() Runner
	// AtEnd lists the command after the others of its group.
	AtEnd bool
	Sub   []*Command
}

// Runner is a command with its flags and arguments.
type Runner interface {
	// FlagSet returns the flags, for the parser.
	FlagSet() any
	// Take assigns arguments and returns those that are left.
	Take(args []string) ([]string, error)
	Run(ctx context.Context, s *Session) (Result, error)
}

// need is what a command requires before it can run.
type need int

// Each includes the ones before it.
const (
	NeedsNothing need = iota
	NeedsAPI
	NeedsLogin
	NeedsOrg
	NeedsSpace
)

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

// Words are the arguments of a command, by their names in the usage line.
type Words map[string]string

// Action is what a command does, with its arguments and flags.
type Action[F any] func(ctx context.Context, s *Session, w Words, f *F) (Result, error)

// simple is a command that is defined by its line in the table: the usage line names its
// arguments, and the fields of F are its flags.
type simple[F any] struct {
	usage string
	flags F
	words Words
	do    Action[F]
}

// NoFlags is for commands that have none.
type NoFlags struct{}

// ForceFlag is for commands that delete something.
type ForceFlag struct {
	Force bool `short:"f" long:"force" description:"Do not ask for confirmation"`
}

// ForceOnlyFlag is ForceFlag without a long name, as in cf.
type ForceOnlyFlag struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
}

// GUIDFlag is for commands that can show only the guid.
type GUIDFlag struct {
	GUID bool `long:"guid" description:"Show only the guid"`
}

// Entry returns a line of the table of commands. The arguments in usage come before its
// flags; those in brackets are optional. Where one is a number or a list, F declares them as
// positional arguments, which the parser assigns.
func Entry[F any](name, usage, summary string, n need, do Action[F], examples ...string) *Command {
	for i, e := range examples {
		examples[i] = strings.TrimSpace(name + " " + e)
	}
	return &Command{
		Name: name, Summary: summary, Args: usage, need: n, Example: examples,
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
	c.progress = true
	return c
}

// Explained adds a longer description.
func (c *Command) Explained(about string) *Command {
	c.About = about
	return c
}

// Also adds an example that does not begin with the command.
func (c *Command) Also(example string) *Command {
	c.Example = append(c.Example, example)
	return c
}

// Hint adds a hint for an argument that the command does not take.
func (c *Command) Hint(text string) *Command {
	c.Stray = text
	return c
}

// With adds subcommands.
func (c *Command) With(all ...*Command) *Command {
	c.Sub = all
	return c
}

// Last lists commands after the others of their group.
func Last(all []*Command) []*Command {
	for _, c := range all {
		c.AtEnd = true
	}
	return all
}

func (c *simple[F]) FlagSet() any { return &c.flags }

// Take assigns the arguments to their names.
func (c *simple[F]) Take(args []string) ([]string, error) {
	c.words = Words{}
	var missing []string
	for field := range strings.FieldsSeq(c.usage) {
		name := strings.Trim(field, "[]")
		if strings.HasPrefix(name, "-") || name == "flags" {
			break
		}
		if len(args) > 0 {
			c.words[name], args = args[0], args[1:]
		} else if !strings.HasPrefix(field, "[") {
			missing = append(missing, "'"+name+"'")
		}
	}
	switch last := len(missing) - 1; last {
	case -1:
		return args, nil
	case 0:
		return nil, fmt.Errorf("the required argument %s was not provided", missing[0])
	default:
		return nil, fmt.Errorf("the required arguments %s and %s were not provided",
			strings.Join(missing[:last], ", "), missing[last])
	}
}

func (c *simple[F]) Run(ctx context.Context, s *Session) (Result, error) {
	return c.do(ctx, s, c.words, &c.flags)
}
