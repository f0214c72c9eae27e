package actions

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CreateBuildpack stores a buildpack to upload to, at a position of the list.
func (p *Platform) CreateBuildpack(tx platform.Tx, by Actor, bp *platform.Buildpack, position int) error {
	bp.State, bp.Lifecycle = platform.BuildpackAwaitingUpload, "buildpack"
	if err := checkBuildpack(tx, bp); err != nil {
		return err
	}
	if err := buildpackConflict(bp, tx.Buildpacks().Insert(bp)); err != nil {
		return err
	}
	if err := moveBuildpack(tx, bp, position); err != nil {
		return err
	}
	return p.recordBuildpack(tx, "create", by, bp)
}

// UpdateBuildpack stores a changed buildpack and moves it, unless position is 0.
func (p *Platform) UpdateBuildpack(tx platform.Tx, by Actor, bp *platform.Buildpack, position int) error {
	if err := checkBuildpack(tx, bp); err != nil {
		return err
	}
	if err := buildpackConflict(bp, tx.Buildpacks().Update(bp)); err != nil {
		return err
	}
	if position > 0 {
		if err := moveBuildpack(tx, bp, position); err != nil {
			return err
		}
	}
	return p.recordBuildpack(tx, "update", by, bp)
}

// BuildpackUploaded makes a buildpack ready whose file is stored.
func (p *Platform) BuildpackUploaded(tx platform.Tx, by Actor, bp *platform.Buildpack, filename,
	checksum string) error {
	bp.State, bp.Filename, bp.Checksum, bp.Bundled = platform.BuildpackReady, filename, checksum, false
	if err := tx.Buildpacks().Update(bp); err != nil {
		return err
	}
	return p.recordBuildpack(tx, "upload", by, bp)
}

// DeleteBuildpack removes a buildpack; those behind it move up.
func (p *Platform) DeleteBuildpack(tx platform.Tx, by Actor, bp *platform.Buildpack) error {
	if err := tx.Buildpacks().Delete(bp.GUID); err != nil {
		return err
	}
	rest, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return err
	}
	if err := renumber(tx, rest); err != nil {
		return err
	}
	return p.recordBuildpack(tx, "delete", by, bp)
}

func (p *Platform) recordBuildpack(tx platform.Tx, what string, by Actor, bp *platform.Buildpack) error {
	return p.Record(tx, "audit.buildpack."+what, by, Target{GUID: bp.GUID, Type: "buildpack", Name: bp.Name}, nil)
}

func checkBuildpack(tx platform.Tx, bp *platform.Buildpack) error {
	if err := platform.CheckBuildpackName(bp.Name); err != nil || bp.Stack == "" {
		return err
	}
	n, err := tx.Stacks().Count(platform.Where("name", bp.Stack))
	if err == nil && n == 0 {
		err = fault.Invalid("Stack '" + bp.Stack + "' does not exist")
	}
	return err
}

func buildpackConflict(bp *platform.Buildpack, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable,
			"Buildpack with name '%s', stack '%s' and lifecycle 'buildpack' already exists", bp.Name, bp.Stack)
	}
	return err
}

// moveBuildpack puts a buildpack at a position, from 1, and the others behind it,
// without gaps.
func moveBuildpack(tx platform.Tx, bp *platform.Buildpack, position int) error {
	all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o *platform.Buildpack) bool { return o.GUID == bp.GUID })
	return renumber(tx, slices.Insert(all, min(position-1, len(all)), bp))
}

// renumber gives buildpacks the positions they have in the list.
func renumber(tx platform.Tx, all []*platform.Buildpack) error {
	for i, o := range all {
		if o.Position == i+1 {
			continue
		}
		o.Position = i + 1
		if err := tx.Buildpacks().Update(o); err != nil {
			return err
		}
	}
	return nil
}
