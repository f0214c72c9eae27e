package apps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// revisionRow is a revision in a list.
type revisionRow struct {
	Version     int       `json:"version"`
	Deployed    bool      `json:"deployed"`
	Description string    `json:"description"`
	Deployable  bool      `json:"deployable"`
	GUID        string    `json:"guid"`
	Created     time.Time `json:"created_at"`
}

// revisionsOf returns revisions of an app, the newest first. A suffix of the path
// or a query restricts them.
func revisionsOf(ctx context.Context, s *core.Session, app cfapi.App, suffix string,
	query url.Values) ([]cfapi.Revision, error) {
	all := url.Values{"order_by": {"-created_at"}, "per_page": {"5000"}}
	maps.Copy(all, query)
	return client.List[cfapi.Revision](ctx, s.API, "/v3/apps/"+app.GUID+"/revisions"+suffix, all)
}

// deployedRevisions returns the revisions that run, the newest first.
func deployedRevisions(ctx context.Context, s *core.Session, app cfapi.App) ([]cfapi.Revision, error) {
	return revisionsOf(ctx, s, app, "/deployed", nil)
}

// revisionOf returns the revision of an app with a version.
func revisionOf(ctx context.Context, s *core.Session, app cfapi.App, version int) (cfapi.Revision, error) {
	found, err := revisionsOf(ctx, s, app, "", url.Values{"versions": {strconv.Itoa(version)}})
	if err != nil {
		return cfapi.Revision{}, err
	}
	if len(found) == 0 {
		return cfapi.Revision{}, &core.Problem{What: fmt.Sprintf("App %s has no revision %d.", app.Name, version),
			Try: fmt.Sprintf("'%s revisions %s' lists them", s.Env.Program, app.Name)}
	}
	return found[0], nil
}

func listRevisions(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	var feature struct {
		Enabled bool `json:"enabled"`
	}
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/features/revisions", nil, &feature); err != nil {
		return nil, err
	}
	if !feature.Enabled {
		s.Say("Revisions of app %s are disabled: starting it creates no new ones.", app.Name)
	}
	found, err := revisionsOf(ctx, s, app, "", nil)
	if err != nil {
		return nil, err
	}
	deployed, err := deployedRevisions(ctx, s, app)
	if err != nil {
		return nil, err
	}
	out := &core.Listing[revisionRow]{
		Key: "revisions", Heading: []string{"revision", "description", "deployable", "created"},
		Cells: func(r revisionRow) []string {
			version := strconv.Itoa(r.Version)
			if r.Deployed {
				version += " (deployed)"
			}
			return []string{version, r.Description, core.YesNo(r.Deployable), core.Date(r.Created)}
		},
	}
	for _, r := range found {
		out.Rows = append(out.Rows, revisionRow{r.Version, isDeployed(deployed, r), r.Description, r.Deployable, r.GUID,
			r.CreatedAt})
	}
	return out, nil
}

func isDeployed(deployed []cfapi.Revision, r cfapi.Revision) bool {
	return slices.ContainsFunc(deployed, func(d cfapi.Revision) bool { return d.GUID == r.GUID })
}

type revisionFlags struct {
	Version int `long:"version" value-name:"N" description:"Revision to show (default: the running ones)"`
}

// revisionsShown are the details of revisions.
type revisionsShown struct {
	Revisions []revisionDetails `json:"revisions"`
}

type revisionDetails struct {
	revisionRow
	Droplet string            `json:"droplet_guid"`
	Labels  map[string]string `json:"labels"`
	Notes   map[string]string `json:"annotations"`
	// Settings are the environment, commands, settings and sidecars by name.
	Settings map[string]string `json:"settings"`
}

func (all *revisionsShown) Show(p *term.Printer) {
	if len(all.Revisions) == 0 {
		p.Println("No revision of the app runs.")
	}
	for _, r := range all.Revisions {
		p.Println("")
		p.Pairs([][2]string{
			{"revision", strconv.Itoa(r.Version)}, {"deployed", core.YesNo(r.Deployed)}, {"description", r.Description},
			{"deployable", core.YesNo(r.Deployable)},
			{"guid", r.GUID}, {"created", core.Date(r.Created)}, {"labels", listed(r.Labels)},
			{"annotations", listed(r.Notes)},
		}...)
		t := term.Table{Heading: []string{"setting", "value"}}
		for _, name := range core.SortedKeys(r.Settings) {
			t.Rows = append(t.Rows, term.Cells(name, r.Settings[name]))
		}
		p.Println("")
		p.Table(t)
	}
}

// listed returns metadata as one line.
func listed(m map[string]string) string {
	var out []string
	for _, k := range core.SortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}

func showRevision(ctx context.Context, s *core.Session, app cfapi.App, f *revisionFlags) (core.Result, error) {
	deployed, err := deployedRevisions(ctx, s, app)
	if err != nil {
		return nil, err
	}
	wanted := deployed
	if f.Version != 0 {
		one, err := revisionOf(ctx, s, app, f.Version)
		if err != nil {
			return nil, err
		}
		wanted = []cfapi.Revision{one}
	}
	out := &revisionsShown{[]revisionDetails{}}
	for _, r := range wanted {
		settings, err := settingsOf(ctx, s, r)
		if err != nil {
			return nil, err
		}
		out.Revisions = append(out.Revisions, revisionDetails{
			revisionRow{r.Version, isDeployed(deployed, r), r.Description, r.Deployable, r.GUID, r.CreatedAt},
			r.Droplet.GUID, r.Metadata.Labels, r.Metadata.Annotations, settings,
		})
	}
	return out, nil
}

// settingsOf returns what a revision is made of, by name. The environment is left
// out if the user may not read it.
func settingsOf(ctx context.Context, s *core.Session, r cfapi.Revision) (map[string]string, error) {
	out := map[string]string{dropletSetting: r.Droplet.GUID}
	for kind, p := range r.Processes {
		flatten(out, kind, p)
		flatten(out, kind, r.Ingot.Processes[kind])
	}
	for _, side := range r.Sidecars {
		name, _ := side["name"].(string)
		delete(side, "name")
		flatten(out, "sidecar "+name, side)
		flatten(out, "sidecar "+name+" options", r.Ingot.Sidecars[name])
	}
	var env variables
	err := s.API.Get(ctx, "/v3/revisions/"+r.GUID+"/environment_variables", nil, &env)
	if client.Status(err) == 403 {
		s.Say("You may not read the environment variables of revision %d.", r.Version)
		return out, nil
	}
	for name, value := range env.Var {
		out["env "+name] = value
	}
	return out, err
}

// dropletSetting is the setting with the guid of the droplet, which says nothing to
// people: they see what dropletFacts returns.
const dropletSetting = "droplet"

// dropletFacts returns what a droplet is, by name.
func dropletFacts(ctx context.Context, s *core.Session, guid string) (map[string]string, error) {
	var d cfapi.Droplet
	err := s.API.Get(ctx, "/v3/droplets/"+guid, nil, &d)
	if client.Status(err) == http.StatusNotFound {
		return map[string]string{"droplet file": "deleted"}, nil
	}
	if err != nil {
		return nil, err
	}
	var packs []string
	for _, b := range d.Buildpacks {
		packs = append(packs, strings.TrimSpace(b.Name+" "+b.Version))
	}
	out := map[string]string{"droplet built": core.Date(d.CreatedAt), "droplet buildpacks": strings.Join(packs, ", "),
		"droplet stack": d.Stack, "droplet image": d.Image}
	if sum := d.Checksum.Value; sum != "" {
		out["droplet checksum"] = sum[:min(len(sum), shownChecksum)]
	}
	for kind, command := range d.ProcessTypes {
		out["droplet command of "+kind] = command
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out, nil
}

// shownChecksum is how many digits of a checksum are shown.
const shownChecksum = 12

// flatten adds the members of a JSON object under their path.
func flatten(to map[string]string, path string, value any) {
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, member := range v {
			flatten(to, path+" "+strings.ReplaceAll(key, "_", " "), member)
		}
	case []any:
		var all []string
		for _, member := range v {
			all = append(all, fmt.Sprint(member))
		}
		to[path] = strings.Join(all, ", ")
	default:
		to[path] = fmt.Sprint(v)
	}
}

type rollbackFlags struct {
	Version int  `long:"version" value-name:"N" required:"yes" description:"Revision to roll back to"`
	Force   bool `short:"f" description:"Do not ask for confirmation"`
	DeployFlags
}

func rollBack(ctx context.Context, s *core.Session, w core.Words, f *rollbackFlags) (core.Result, error) {
	if f.Version < 1 {
		return nil, core.UsageError(fmt.Sprintf("--version %d is not the number of a revision", f.Version))
	}
	f.Strategy = cmp.Or(f.Strategy, "rolling")
	options, err := f.Options()
	if err != nil {
		return nil, core.UsageError(err.Error())
	}
	s.Doing("Rolling back app %s to revision %s", w["APP"], strconv.Itoa(f.Version))
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	revision, err := revisionOf(ctx, s, app, f.Version)
	if err != nil {
		return nil, err
	}
	question := fmt.Sprintf("This creates a new revision with the settings of revision %d and replaces all instances "+
		"of %s. Continue", f.Version, app.Name)
	if err := s.Confirm(ctx, f.Force, question); err != nil {
		return nil, err
	}
	return OrNilToo(deployFrom(ctx, s, app, map[string]any{"revision": map[string]string{"guid": revision.GUID}},
		f.DeployFlags, options))
}

type diffFlags struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		From string `positional-arg-name:"VERSION" required:"yes"`
		To   string `positional-arg-name:"VERSION"`
	} `positional-args:"yes"`
}

// revisionChange is a setting in which two revisions differ; a value is nil in the
// revision that does not have it.
type revisionChange struct {
	What string  `json:"what"`
	From *string `json:"from"`
	To   *string `json:"to"`
}

type revisionChanges struct {
	From    int              `json:"from"`
	To      int              `json:"to"`
	Changes []revisionChange `json:"changes"`
}

func (d *revisionChanges) Show(p *term.Printer) {
	if len(d.Changes) == 0 {
		p.Printf("Revisions %d and %d do not differ.", d.From, d.To)
		return
	}
	cell := func(value *string) string {
		if value == nil {
			return "-"
		}
		return *value
	}
	t := term.Table{Heading: []string{"", fmt.Sprintf("revision %d", d.From), fmt.Sprintf("revision %d", d.To)}}
	described := slices.ContainsFunc(d.Changes, func(c revisionChange) bool {
		return strings.HasPrefix(c.What,
			dropletSetting+" ")
	})
	for _, c := range d.Changes {
		if c.What == dropletSetting && described {
			continue // other rows say what it is
		}
		row := term.Cells(c.What, cell(c.From), cell(c.To))
		row[0].Paint = p.Bold
		t.Rows = append(t.Rows, row)
	}
	p.Println("")
	p.Table(t)
}

func diffRevisions(ctx context.Context, s *core.Session, _ core.Words, f *diffFlags) (core.Result, error) {
	s.Doing("Comparing revisions of app %s", f.Args.App)
	app, err := s.App(ctx, f.Args.App)
	if err != nil {
		return nil, err
	}
	from, err := revisionNamed(ctx, s, app, f.Args.From)
	if err != nil {
		return nil, err
	}
	to, err := revisionNamed(ctx, s, app, f.Args.To)
	if err != nil {
		return nil, err
	}
	before, err := settingsOf(ctx, s, from)
	if err != nil {
		return nil, err
	}
	after, err := settingsOf(ctx, s, to)
	if err != nil {
		return nil, err
	}
	if before[dropletSetting] != after[dropletSetting] {
		for revision, settings := range map[*cfapi.Revision]map[string]string{&from: before, &to: after} {
			facts, err := dropletFacts(ctx, s, revision.Droplet.GUID)
			if err != nil {
				return nil, err
			}
			maps.Copy(settings, facts)
		}
	}
	return &revisionChanges{from.Version, to.Version, differences(before, after)}, nil
}

// revisionNamed returns the revision with a version; without one, the newest that
// runs, or the newest of all if none runs.
func revisionNamed(ctx context.Context, s *core.Session, app cfapi.App, version string) (cfapi.Revision, error) {
	if version != "" {
		n, err := strconv.Atoi(version)
		if err != nil || n < 1 {
			return cfapi.Revision{}, fmt.Errorf("%q is not the number of a revision", version)
		}
		return revisionOf(ctx, s, app, n)
	}
	for _, suffix := range []string{"/deployed", ""} {
		found, err := revisionsOf(ctx, s, app, suffix, nil)
		if err != nil {
			return cfapi.Revision{}, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return cfapi.Revision{}, errors.New("app " + app.Name + " has no revisions")
}

func differences(before, after map[string]string) []revisionChange {
	out := []revisionChange{}
	names := append(core.SortedKeys(before), core.SortedKeys(after)...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		x, was := before[name]
		y, is := after[name]
		change := revisionChange{What: name}
		if was {
			change.From = &x
		}
		if is {
			change.To = &y
		}
		if was != is || x != y {
			out = append(out, change)
		}
	}
	return out
}

func revisionsCommands() []*core.Command {
	return slices.Concat(core.InGroup(core.GroupApps,
		core.Entry("rollback", "APP --version N [--strategy rolling|canary]", "Roll back an app to a revision",
			core.NeedsSpace, rollBack,
			"my-app --version 3", "my-app --version 3 --strategy canary -f").Slow().
			Explained("A rollback creates a new revision. It restores droplet, environment variables, commands, sidecars and "+
				"settings of processes; the number of instances stays."),
	), core.InGroup(core.GroupInspect,
		core.Entry("revisions", "APP", "List an app's revisions", core.NeedsSpace, core.OnApp("Getting revisions of app %s",
			listRevisions), "my-app"),
		core.Entry("revision", "APP [--version N]", "Show a revision of an app", core.NeedsSpace,
			core.OnApp("Getting a revision of app %s", showRevision),
			"my-app", "my-app --version 3"),
		core.Entry("diff", "APP VERSION [VERSION]", "Compare two revisions of an app", core.NeedsSpace, diffRevisions,
			"my-app 3 5", "my-app 3").
			Explained("Without a second version, compares with the one that runs."),
	))
}
