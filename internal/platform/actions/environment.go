package actions

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/platform/instance/initproto"
)

// DefaultFiles is the limit of open files of an instance.
const DefaultFiles = 16384

// AppInfo is an app with its space, its organization, the addresses of its routes
// and its isolation segment, which is empty if it is the shared one.
type AppInfo struct {
	App   *platform.App
	Space *platform.Space
	Org   *platform.Organization
	URIs  []string
	// Internal are the names of the app's internal routes, sorted.
	Internal []string
	Segment  string
}

// AppInfoOf reads the AppInfo of an app.
func AppInfoOf(tx platform.Tx, app *platform.App) (*AppInfo, error) {
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return nil, err
	}
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return nil, err
	}
	info := &AppInfo{App: app, Space: space, Org: org, URIs: []string{}}
	routes, _, err := tx.Routes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		d, err := tx.Domains().Get(r.DomainGUID)
		if err != nil {
			return nil, err
		}
		info.URIs = append(info.URIs, platform.RouteURL(r, d))
		if d.Internal {
			info.Internal = append(info.Internal, strings.ToLower(platform.RouteURL(r, d)))
		}
	}
	slices.Sort(info.Internal)
	info.Segment, err = SegmentOf(tx, space, org)
	return info, err
}

// VCAPApplication returns the value of that variable, without what differs between
// instances. api is the address of the v3 API.
func (i *AppInfo) VCAPApplication(api string, process *platform.Process, memoryMB int) map[string]any {
	limits := map[string]any{"fds": DefaultFiles}
	out := map[string]any{
		"cf_api": api, "limits": limits,
		"application_id": i.App.GUID, "application_name": i.App.Name, "name": i.App.Name,
		"application_uris": i.URIs, "uris": i.URIs,
		"space_id": i.Space.GUID, "space_name": i.Space.Name,
		"organization_id": i.Org.GUID, "organization_name": i.Org.Name,
	}
	if process != nil {
		limits["mem"], limits["disk"] = memoryMB, process.DiskMB
		out["process_id"], out["process_type"] = process.GUID, process.Type
		out["application_version"], out["version"] = process.Version, process.Version
	}
	return out
}

// Memory returns how much memory the main process and each sidecar of an instance
// can use. The main process gets what the sidecars leave.
func Memory(instanceMB int, sidecars []*platform.Sidecar) (mainMB int, sidecarMB map[string]int) {
	mainMB, sidecarMB = instanceMB, map[string]int{}
	for _, s := range sidecars {
		mainMB -= s.MemoryMB
		sidecarMB[s.Name] = s.MemoryMB
		if s.MemoryMB == 0 {
			sidecarMB[s.Name] = instanceMB
		}
	}
	return mainMB, sidecarMB
}

// RunEnvironment returns the part of a process's environment that is the same for
// all instances. The user's variables override those of the running group; the
// platform's override both.
func (p *Platform) RunEnvironment(tx platform.Tx, info *AppInfo, process *platform.Process, api string,
	memoryMB int) (map[string]string, error) {
	return p.runEnvironment(tx, info, info.VCAPApplication(api, process, memoryMB), memoryMB)
}

func (p *Platform) runEnvironment(tx platform.Tx, info *AppInfo, application map[string]any,
	memoryMB int) (map[string]string, error) {
	group, err := tx.EnvGroup("running")
	if err != nil {
		return nil, err
	}
	env := map[string]string{"LANG": initproto.Lang}
	for _, from := range []map[string]string{group.Var, info.App.Env} {
		for k, v := range from {
			env[k] = v
		}
	}
	env["MEMORY_LIMIT"] = strconv.Itoa(memoryMB) + "m"
	if err := p.addVCAP(tx, env, info, application, info.App.FileBased() == ""); err != nil {
		return nil, err
	}
	database, err := DatabaseURL(tx, info.App)
	if database != "" {
		env["DATABASE_URL"] = database
	}
	return env, err
}

func (p *Platform) addVCAP(tx platform.Tx, env map[string]string, info *AppInfo, application map[string]any,
	withServices bool) error {
	variables := map[string]any{"VCAP_APPLICATION": application}
	if withServices { // else they are in files
		services, err := VCAPServices(tx, info.App)
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
