package actions

import (
	"encoding/json"
	"strconv"

	"ingot/internal/platform"
)

// DefaultFiles is how many files an instance may have open.
const DefaultFiles = 16384

// Place is where an app is.
type Place struct {
	App   *platform.App
	Space *platform.Space
	Org   *platform.Organization
	URIs  []string
}

// PlaceOf reads where an app is and the addresses of its routes.
func PlaceOf(tx platform.Tx, app *platform.App) (*Place, error) {
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return nil, err
	}
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return nil, err
	}
	place := &Place{App: app, Space: space, Org: org, URIs: []string{}}
	routes, _, err := tx.Routes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		d, err := tx.Domains().Get(r.DomainGUID)
		if err != nil {
			return nil, err
		}
		place.URIs = append(place.URIs, RouteURL(r, d))
	}
	return place, nil
}

// VCAPApplication is the variable of that name, without what only an instance
// knows. api is the address of the v3 API.
func (pl *Place) VCAPApplication(api string, process *platform.Process, memoryMB int) map[string]any {
	limits := map[string]any{"fds": DefaultFiles}
	out := map[string]any{
		"cf_api": api, "limits": limits,
		"application_id": pl.App.GUID, "application_name": pl.App.Name, "name": pl.App.Name,
		"application_uris": pl.URIs, "uris": pl.URIs,
		"space_id": pl.Space.GUID, "space_name": pl.Space.Name,
		"organization_id": pl.Org.GUID, "organization_name": pl.Org.Name,
	}
	if process != nil {
		limits["mem"], limits["disk"] = memoryMB, process.DiskMB
		out["process_id"], out["process_type"] = process.GUID, process.Type
		out["application_version"], out["version"] = process.Version, process.Version
	}
	return out
}

// Memory is what the main process and each sidecar are told they have: the
// main process what the sidecars leave.
func Memory(process *platform.Process, sidecars []*platform.Sidecar) (mainMB int, sidecarMB map[string]int) {
	mainMB, sidecarMB = process.MemoryMB, map[string]int{}
	for _, s := range sidecars {
		mainMB -= s.MemoryMB
		sidecarMB[s.Name] = s.MemoryMB
		if s.MemoryMB == 0 {
			sidecarMB[s.Name] = process.MemoryMB
		}
	}
	return mainMB, sidecarMB
}

// RunEnvironment is the environment of a process, as far as it is the same for
// all instances. Later ones win: the group, the user's, the platform's.
func (p *Platform) RunEnvironment(tx platform.Tx, place *Place, process *platform.Process, api string, memoryMB int) (map[string]string, error) {
	return p.runEnvironment(tx, place, place.VCAPApplication(api, process, memoryMB), memoryMB)
}

func (p *Platform) runEnvironment(tx platform.Tx, place *Place, application map[string]any, memoryMB int) (map[string]string, error) {
	group, err := tx.EnvGroup("running")
	if err != nil {
		return nil, err
	}
	env := map[string]string{"LANG": "en_US.UTF-8"}
	for _, from := range []map[string]string{group.Var, place.App.Env} {
		for k, v := range from {
			env[k] = v
		}
	}
	env["MEMORY_LIMIT"] = strconv.Itoa(memoryMB) + "m"
	if err := p.addVCAP(tx, env, place, application, FileBased(place.App) == ""); err != nil {
		return nil, err
	}
	database, err := DatabaseURL(tx, place.App)
	if database != "" {
		env["DATABASE_URL"] = database
	}
	return env, err
}

func (p *Platform) addVCAP(tx platform.Tx, env map[string]string, place *Place, application map[string]any, withServices bool) error {
	variables := map[string]any{"VCAP_APPLICATION": application}
	if withServices { // else they are in files
		services, err := VCAPServices(tx, place.App)
		if err != nil {
			return err
		}
		variables["VCAP_SERVICES"] = services
	}
	for name, value := range variables {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		env[name] = string(text)
	}
	return nil
}
