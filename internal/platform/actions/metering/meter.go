package metering

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Meter returns a transaction that notes what it changes of apps, processes, tasks,
// builds and service instances, and a function that writes the usage events which
// follow from the difference. It has to be called before the transaction commits. So
// events are complete, whichever action makes a change, and a change and its event are
// stored together or not at all.
func Meter(tx platform.Tx) (platform.Tx, func() error) {
	m := &metered{Tx: tx}
	return m, m.finish
}

// metered is a transaction with what it changed.
type metered struct {
	platform.Tx
	apps      noted[platform.App]
	processes noted[platform.Process]
	tasks     noted[platform.Task]
	builds    noted[platform.Build]
	instances noted[platform.ServiceInstance]
	// places and offers are those of what was deleted.
	places map[string]appPlace
	offers map[string]platform.ServiceUsageEvent
}

// noted is rows that a transaction changed, as they were before; nil is for those that
// did not exist.
type noted[T any] struct {
	order  []string
	before map[string]*T
}

func (n *noted[T]) add(guid string, before *T) {
	if n.before == nil {
		n.before = map[string]*T{}
	}
	n.order, n.before[guid] = append(n.order, guid), before
}

// notingRepo notes the rows that are written.
type notingRepo[T any, P interface {
	*T
	Base() *platform.Resource
}] struct {
	platform.Repo[T]
	noted *noted[T]
	// deleting is called before a row that exists is deleted.
	deleting func(*T) error
}

func (r notingRepo[T, P]) Insert(row *T) error {
	if err := r.Repo.Insert(row); err != nil {
		return err
	}
	if _, known := r.noted.before[P(row).Base().GUID]; !known {
		r.noted.add(P(row).Base().GUID, nil)
	}
	return nil
}

func (r notingRepo[T, P]) note(guid string) error {
	if _, known := r.noted.before[guid]; known {
		return nil
	}
	before, err := r.First(platform.WithoutSecrets(platform.Where("guid", guid)))
	if err == nil {
		r.noted.add(guid, before)
	}
	return ignoreMissing(err) // as the write itself will say
}

func (r notingRepo[T, P]) Update(row *T) error {
	if err := r.note(P(row).Base().GUID); err != nil {
		return err
	}
	return r.Repo.Update(row)
}

func (r notingRepo[T, P]) Delete(guid string) error {
	if err := r.gone(platform.Where("guid", guid)); err != nil {
		return err
	}
	return r.Repo.Delete(guid)
}

func (r notingRepo[T, P]) DeleteAll(q platform.Query) (int, error) {
	if err := r.gone(q); err != nil {
		return 0, err
	}
	return r.Repo.DeleteAll(q)
}

func (r notingRepo[T, P]) gone(q platform.Query) error {
	q.Order, q.Desc, q.Page, q.PerPage = "", false, 0, 0
	rows, _, err := r.List(platform.WithoutSecrets(q))
	for i := 0; i < len(rows) && err == nil; i++ {
		if err = r.note(P(rows[i]).Base().GUID); err == nil && r.deleting != nil {
			err = r.deleting(rows[i])
		}
	}
	return err
}

func ignoreMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (m *metered) Apps() platform.Repo[platform.App] {
	return notingRepo[platform.App, *platform.App]{m.Tx.Apps(), &m.apps, nil}
}

func (m *metered) Processes() platform.Repo[platform.Process] {
	return notingRepo[platform.Process, *platform.Process]{m.Tx.Processes(), &m.processes,
		func(p *platform.Process) error { return m.keepPlace(p.AppGUID) }}
}

func (m *metered) Tasks() platform.Repo[platform.Task] {
	return notingRepo[platform.Task, *platform.Task]{m.Tx.Tasks(), &m.tasks, func(t *platform.Task) error {
		if t.State.Over() {
			return nil
		}
		return m.keepPlace(t.AppGUID)
	}}
}

func (m *metered) Builds() platform.Repo[platform.Build] {
	return notingRepo[platform.Build, *platform.Build]{m.Tx.Builds(), &m.builds, func(b *platform.Build) error {
		if b.State != platform.BuildStaging {
			return nil
		}
		return m.keepPlace(b.AppGUID)
	}}
}

func (m *metered) ServiceInstances() platform.Repo[platform.ServiceInstance] {
	return notingRepo[platform.ServiceInstance, *platform.ServiceInstance]{m.Tx.ServiceInstances(), &m.instances,
		func(i *platform.ServiceInstance) error {
			e, err := serviceUsage(m.Tx, i)
			if err != nil {
				return err
			}
			if m.offers == nil {
				m.offers = map[string]platform.ServiceUsageEvent{}
			}
			m.offers[i.GUID] = e
			return nil
		}}
}

// appPlace is what the events of an app have in common.
type appPlace struct {
	event platform.AppUsageEvent
	state platform.AppState
}

// keepPlace remembers the place of an app that is going to be deleted.
func (m *metered) keepPlace(appGUID string) error {
	if _, known := m.places[appGUID]; known {
		return nil
	}
	place, err := placeOf(m.Tx, appGUID)
	if err != nil {
		return err
	}
	if m.places == nil {
		m.places = map[string]appPlace{}
	}
	m.places[appGUID] = place
	return nil
}

func placeOf(tx platform.Tx, appGUID string) (appPlace, error) {
	app, err := tx.Apps().First(platform.WithoutSecrets(platform.Where("guid", appGUID)))
	if err != nil {
		return appPlace{}, err
	}
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return appPlace{}, err
	}
	e := platform.AppUsageEvent{AppGUID: app.GUID, AppName: app.Name, SpaceGUID: space.GUID, SpaceName: space.Name,
		OrgGUID: space.OrgGUID}
	err = setBuildpack(tx, &e, app.DropletGUID, nil)
	return appPlace{e, app.State}, err
}

// setBuildpack sets the buildpack of a droplet, or of a build that has none yet.
func setBuildpack(tx platform.Tx, e *platform.AppUsageEvent, dropletGUID string, wanted []string) error {
	name := ""
	if len(wanted) > 0 {
		name = wanted[0]
	}
	d, err := tx.Droplets().Get(dropletGUID)
	if err := ignoreMissing(err); err != nil {
		return err
	}
	if d != nil && len(d.Buildpacks) > 0 {
		name = d.Buildpacks[0].Name
	}
	if name == "" {
		return nil
	}
	e.BuildpackName = platform.Redacted(name)
	b, err := tx.Buildpacks().First(platform.Where("name", name))
	if b != nil && err == nil {
		e.BuildpackGUID = b.GUID
	}
	return ignoreMissing(err)
}
