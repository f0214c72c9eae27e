package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
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

func (c *simple[F]) flagSet() any { return &c.flags }

// take assigns the arguments to their names.
func (c *simple[F]) take(args []string) error {
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

// acting shows what is being done, and as which user.
func (s *session) acting(what string, names ...any) {
	for i, n := range names {
		names[i] = s.out.Bold(fmt.Sprint(n))
	}
	s.say("%s as %s...", fmt.Sprintf(what, names...), s.out.Bold(s.api.User().Name()))
}

// send makes a change and waits until it is done.
func (s *session) send(ctx context.Context, method, path string, body any) error {
	reply, err := s.api.Do(ctx, client.Call{Method: method, URL: path, Body: body})
	if err != nil {
		return err
	}
	return s.api.Job(ctx, reply)
}

// done shows that an action succeeded; pairs are the names and values of its JSON.
func (s *session) done(pairs ...any) (result, error) {
	s.ok()
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return s.jsonOnly(&jsonAs{nil, out}), nil
}

// create makes a resource. One that exists already is no error if the API says taken.
func (s *session) create(ctx context.Context, kind, name, path string, body map[string]any, taken string) (result, error) {
	var t client.Thing
	reply, err := s.api.Post(ctx, path, body, &t)
	if taken != "" && client.Says(err, taken) {
		s.say("%s %s already exists.", kind, name)
		s.ok()
		return &made{kind, name, "", true}, nil
	}
	if err == nil {
		err = s.api.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{kind, name, t.GUID, false}, nil
}

// thing finds a resource by its name.
func (s *session) thing(ctx context.Context, kind, path, name string, q url.Values) (client.Thing, error) {
	return named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
}

// targetOrg returns the named org; the targeted one without a name.
func (s *session) targetOrg(ctx context.Context, name string) (client.Thing, error) {
	if name != "" {
		return s.org(ctx, name)
	}
	return client.Thing{GUID: s.cfg.Org.GUID, Name: s.cfg.Org.Name}, s.check(anOrg)
}

// targetSpace returns the named space of the named org; the targeted ones without names.
func (s *session) targetSpace(ctx context.Context, org, space string) (o, sp client.Thing, err error) {
	if o, err = s.targetOrg(ctx, org); err != nil {
		return o, sp, err
	}
	if space == "" {
		return o, client.Thing{GUID: s.cfg.Space.GUID, Name: s.cfg.Space.Name}, s.check(aSpace)
	}
	sp, err = s.spaceOf(ctx, o, space)
	return o, sp, err
}

// appPair returns the app SOURCE, and the app DESTINATION of the named space or the targeted
// one.
func (s *session) appPair(ctx context.Context, w words, org, space string) (from, to client.App, err error) {
	if from, err = s.app(ctx, w["SOURCE"]); err != nil {
		return from, to, err
	}
	_, in, err := s.targetSpace(ctx, org, space)
	if err != nil {
		return from, to, err
	}
	to, err = named(ctx, s, "App", "/v3/apps", w["DESTINATION"], url.Values{"space_guids": {in.GUID}}, func(a client.App) string { return a.Name })
	return from, to, err
}

// relateAll returns relationships to several resources, as JSON.
func relateAll(guids ...string) map[string]any {
	all := []map[string]string{}
	for _, g := range guids {
		all = append(all, map[string]string{"guid": g})
	}
	return map[string]any{"data": all}
}

// link returns the address of a component of the platform.
func (s *session) link(ctx context.Context, name, what string) (string, error) {
	root, err := s.api.Discover(ctx)
	if err != nil {
		return "", err
	}
	if at := root.Href(name); at != "" {
		return at, nil
	}
	return "", &problem{What: "This platform has no " + what + ".", Why: "the API at " + s.cfg.API + " does not advertise one"}
}

// sheet shows one resource.
type sheet struct {
	pairs [][2]string
	text  string // shown below, optional
	more  result // shown below, optional
	json  any
}

// MarshalJSON encodes the resource.
func (t *sheet) MarshalJSON() ([]byte, error) { return marshal(t.json) }

func (t *sheet) show(p *term.Printer) {
	p.Println("")
	p.Pairs(t.pairs...)
	if t.text != "" {
		p.Println(t.text)
	}
	if t.more != nil {
		t.more.show(p)
	}
}

// guidFlag is for commands that can show only the guid.
type guidFlag struct {
	GUID bool `long:"guid" description:"Show only the guid"`
}

// adminCommands returns the commands that are defined in tables.
func adminCommands() []*command {
	return slices.Concat(
		appCommands(), routeCommands(), domainCommands(), serviceAdminCommands(), placeCommands(), quotaCommands(), securityGroupCommands(),
		networkPolicyCommands(), segmentCommands(), buildpackCommands(), settingCommands(),
	)
}
