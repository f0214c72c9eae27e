package actions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/suggest"
	"ingot/internal/platform"
)

func appTarget(tx platform.Tx, app *platform.App) (Target, error) {
	s, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return Target{}, err
	}
	return Target{GUID: app.GUID, Type: "app", Name: app.Name, SpaceGUID: s.GUID, OrgGUID: s.OrgGUID}, nil
}

// RecordApp writes an audit event about an app.
func (p *Platform) RecordApp(tx platform.Tx, kind string, by Actor, app *platform.App, data map[string]any) error {
	t, err := appTarget(tx, app)
	if err != nil {
		return err
	}
	return p.Record(tx, kind, by, t, data)
}

// CheckBuildpacks refuses unknown names and invalid addresses.
func (p *Platform) CheckBuildpacks(tx platform.Tx, names []string) error {
	for _, name := range names {
		if strings.Contains(name, "://") || strings.HasPrefix(name, "git@") {
			continue
		}
		n, err := tx.Buildpacks().Count(platform.Where("name", name))
		if err != nil {
			return err
		}
		if n == 0 {
			return unknownBuildpack(tx, name)
		}
	}
	return nil
}

// unknownBuildpack names the existing buildpacks after the words of Cloud Foundry.
func unknownBuildpack(tx platform.Tx, name string) error {
	all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return err
	}
	var names []string
	for _, b := range all {
		if !slices.Contains(names, b.Name) { // one name can have several stacks
			names = append(names, b.Name)
		}
	}
	text := fmt.Sprintf("Buildpack %q must be an existing admin buildpack or a valid git URI", name)
	if near := suggest.Closest(name, names); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	if len(names) > 0 {
		text += ". Existing buildpacks: " + strings.Join(names[:min(len(names), 30)], ", ")
	}
	return fault.Invalid(text)
}

// CheckLifecycle gives a lifecycle its defaults and refuses what we cannot do.
func (p *Platform) CheckLifecycle(tx platform.Tx, l *platform.Lifecycle) error {
	l.Type = cmp.Or(l.Type, platform.LifecycleBuildpack)
	switch {
	case l.Type == platform.LifecycleDocker && l.Stack == "" && len(l.Buildpacks) == 0:
		return nil
	case l.Type == platform.LifecycleDocker:
		return fault.Invalid("Lifecycle data must be empty for the type 'docker': an image needs neither buildpacks nor a " +
			"stack")
	case l.Type != platform.LifecycleBuildpack:
		return fault.Invalid("Lifecycle type '" + l.Type + "' is not supported by this platform; use 'buildpack' or 'docker'")
	}
	l.Stack = cmp.Or(l.Stack, p.Stack)
	if n, err := tx.Stacks().Count(platform.Where("name", l.Stack)); err != nil {
		return err
	} else if n == 0 {
		return fault.Invalid("Stack must be an existing stack")
	}
	return p.CheckBuildpacks(tx, l.Buildpacks)
}

// CreateApp stores an app with its web process.
func (p *Platform) CreateApp(tx platform.Tx, by Actor, app *platform.App) error {
	if err := platform.CheckAppName(app.Name); err != nil {
		return err
	}
	if err := platform.CheckEnv(app.Env); err != nil {
		return err
	}
	if err := p.CheckLifecycle(tx, &app.Lifecycle); err != nil {
		return err
	}
	if _, err := p.StackUsable(tx, app, app.Lifecycle.Stack); err != nil {
		return err
	}
	app.State = platform.AppStopped
	if err := appConflict(app, tx.Apps().Insert(app)); err != nil {
		return err
	}
	web, err := p.FittingProcess(tx, app, platform.WebProcess)
	if err != nil {
		return err
	}
	if err := tx.Processes().Insert(web); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.create", by, app, map[string]any{"request": map[string]any{"name": app.Name}})
}

func appConflict(app *platform.App, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.NotUnique, "App with the name '%s' already exists.", app.Name)
	}
	return err
}

// FittingProcess is NewProcess with as much memory as quotas allow.
func (p *Platform) FittingProcess(tx platform.Tx, app *platform.App, kind string) (*platform.Process, error) {
	process := p.NewProcess(app, kind)
	memory, err := p.DefaultMemory(tx, app)
	process.MemoryMB = memory
	return process, err
}

// NewProcess is a process with the defaults of its type. The first web process has
// the app's guid, as in Cloud Foundry.
func (p *Platform) NewProcess(app *platform.App, kind string) *platform.Process {
	process := &platform.Process{
		AppGUID: app.GUID, Type: kind, Version: uuid.NewString(),
		ProcessSettings: platform.ProcessSettings{
			MemoryMB: p.MemoryMB, DiskMB: p.DiskMB, LogRate: platform.DefaultLogRate,
			Health:    platform.HealthCheck{Type: platform.CheckProcess},
			Readiness: platform.HealthCheck{Type: platform.CheckProcess},
		},
	}
	if kind == platform.WebProcess {
		process.GUID, process.Instances, process.Health.Type = app.GUID, 1, platform.CheckPort
	}
	return process
}

// UpdateApp stores a changed app.
func (p *Platform) UpdateApp(tx platform.Tx, by Actor, app *platform.App, request map[string]any) error {
	if err := platform.CheckAppName(app.Name); err != nil {
		return err
	}
	if err := platform.CheckEnv(app.Env); err != nil {
		return err
	}
	if app.Features[platform.FeatureFileBasedVCAP] && app.Features[platform.FeatureServiceBindingK8s] {
		return fault.Invalid("'" + platform.FeatureFileBasedVCAP + "' and '" + platform.FeatureServiceBindingK8s +
			"' features cannot be enabled at the same time.")
	}
	before, err := tx.Apps().Get(app.GUID)
	if err != nil {
		return err
	}
	if err := appConflict(app, tx.Apps().Update(app)); err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: before.Name != app.Name})
	return p.RecordAppUpdate(tx, by, app, request)
}

// RecordAppUpdate writes the audit event of a changed app.
func (p *Platform) RecordAppUpdate(tx platform.Tx, by Actor, app *platform.App, request map[string]any) error {
	return p.RecordApp(tx, "audit.app.update", by, app, requestData(request))
}

// ManifestTriggered is the member of a request, and of the data of its event,
// that says that a manifest asked for it.
const ManifestTriggered = "manifest_triggered"

// requestData is the data of an event about a request.
func requestData(request map[string]any) map[string]any {
	request = maps.Clone(request)
	if request == nil {
		request = map[string]any{}
	}
	data := map[string]any{"request": request}
	if by, ok := request[ManifestTriggered]; ok {
		delete(request, ManifestTriggered)
		data[ManifestTriggered] = by
	}
	return data
}

// DeleteApp removes an app with all that is its own. Its instances are ended
// by the controller, which finds that nothing wants them any more; its blobs
// are swept.
func (p *Platform) DeleteApp(tx platform.Tx, by Actor, app *platform.App) error {
	announceApp(tx, app.GUID)
	if err := p.RecordApp(tx, "audit.app.delete-request", by, app, nil); err != nil {
		return err
	}
	if err := p.dropBindings(tx, by, "app_guid", app.GUID); err != nil {
		return err
	}
	if err := forgetAppPolicies(tx, app.GUID); err != nil {
		return err
	}
	q := platform.Where("app_guid", app.GUID)
	mapped, _, err := tx.Destinations().List(q)
	if err != nil {
		return err
	}
	for _, d := range mapped {
		announceRoute(tx, d.RouteGUID)
	}
	for _, remove := range []func(platform.Query) (int, error){
		tx.Destinations().DeleteAll, tx.Sidecars().DeleteAll, tx.Processes().DeleteAll, tx.Deployments().DeleteAll,
		tx.Revisions().DeleteAll, tx.Tasks().DeleteAll,
		tx.Builds().DeleteAll, tx.Droplets().DeleteAll, tx.Packages().DeleteAll,
	} {
		if _, err := remove(q); err != nil {
			return err
		}
	}
	return tx.Apps().Delete(app.GUID)
}

// announceApp announces that instances of an app, or its log drains, may have to change.
func announceApp(tx platform.Tx, guid string) {
	if guid != "" {
		tx.Announce(platform.Changes{Apps: []string{guid}})
	}
}

// StartApp wants the app to run, on its current droplet. One that is started
// already is left alone.
func (p *Platform) StartApp(tx platform.Tx, by Actor, app *platform.App) error {
	if app.DropletGUID == "" {
		return fault.Invalid("Assign a droplet before starting this app.")
	}
	if app.State == platform.AppStarted {
		return nil
	}
	revision, err := p.revise(tx, by, app)
	if err != nil {
		return err
	}
	return p.start(tx, by, app, revision)
}

// start is StartApp with a given revision, nil if the app has none.
func (p *Platform) start(tx platform.Tx, by Actor, app *platform.App, revision *platform.Revision) error {
	if err := p.begin(tx, app, revision); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.start", by, app, nil)
}

// begin gives every process a new version on the current droplet.
func (p *Platform) begin(tx platform.Tx, app *platform.App, revision *platform.Revision) error {
	announceApp(tx, app.GUID)
	stopped := app.State == platform.AppStopped
	app.State = platform.AppStarted
	if err := tx.Apps().Update(app); err != nil {
		return err
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, process := range processes {
		renew(process, app.DropletGUID, revision)
		if err := tx.Processes().Update(process); err != nil {
			return err
		}
	}
	if stopped {
		return appFits(tx, app, processes)
	}
	return nil
}

// renew lets the instances of a process be replaced by those of a droplet. The
// revision is nil if the app has none.
func renew(process *platform.Process, dropletGUID string, revision *platform.Revision) {
	process.Version, process.DropletGUID, process.RevisionGUID = uuid.NewString(), dropletGUID, ""
	if revision != nil {
		process.RevisionGUID = revision.GUID
	}
}

// StopApp wants nothing of the app to run.
func (p *Platform) StopApp(tx platform.Tx, by Actor, app *platform.App) error {
	if app.State == platform.AppStopped {
		return nil
	}
	if err := p.endDeployment(tx, app); err != nil {
		return err
	}
	announceApp(tx, app.GUID)
	app.State = platform.AppStopped
	if err := tx.Apps().Update(app); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.stop", by, app, nil)
}

// RestartApp replaces all instances.
func (p *Platform) RestartApp(tx platform.Tx, by Actor, app *platform.App) error {
	if app.DropletGUID == "" {
		return fault.Invalid("Assign a droplet before starting this app.")
	}
	if err := p.endDeployment(tx, app); err != nil {
		return err
	}
	revision, err := p.revise(tx, by, app)
	if err != nil {
		return err
	}
	if err := p.begin(tx, app, revision); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.restart", by, app, nil)
}

// AssignDroplet makes a droplet the one the app starts next time. Processes it
// has and the app lacks are created; sidecars of its buildpacks replace those
// of the droplet before.
func (p *Platform) AssignDroplet(tx platform.Tx, by Actor, app *platform.App, d *platform.Droplet) error {
	return p.assignDroplet(tx, by, app, d, true)
}

// assignDroplet is AssignDroplet. The memory of web processes is checked by callers
// that do not set web: a deployment changes it.
func (p *Platform) assignDroplet(tx platform.Tx, by Actor, app *platform.App, d *platform.Droplet, web bool) error {
	if d.AppGUID != app.GUID || d.State != platform.DropletStaged {
		return fault.Invalid("Unable to assign current droplet. Ensure the droplet exists and belongs to this app.")
	}
	app.DropletGUID = d.GUID
	if err := tx.Apps().Update(app); err != nil {
		return err
	}
	have, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	if err := p.syncBuildpackSidecars(tx, app, d); err != nil {
		return err
	}
	for _, process := range have {
		if !web && process.Type == platform.WebProcess {
			continue
		}
		if err := leavesMemory(tx, process); err != nil {
			return err
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(d.ProcessTypes)) {
		if slices.ContainsFunc(have, func(h *platform.Process) bool { return h.Type == kind }) {
			continue
		}
		process, err := p.FittingProcess(tx, app, kind)
		if err != nil {
			return err
		}
		if err := p.CreateProcess(tx, by, app, process); err != nil {
			return err
		}
	}
	return p.RecordApp(tx, "audit.app.droplet.mapped", by, app,
		map[string]any{"request": map[string]any{"droplet_guid": d.GUID}})
}
