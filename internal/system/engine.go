package system

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"ingot/internal/engine"
	"ingot/internal/engine/container"
	"ingot/internal/engine/local"
	"ingot/internal/engine/process"
)

// openEngine returns the engine that --engine asks for. auto tries a container
// and says why when it has to do without. sftp is where instances find the sftp
// server; empty if there is none.
func openEngine(ctx context.Context, d *dataDir, kind, programs string, log *slog.Logger) (e engine.Engine, sftp string, err error) {
	initProgram, sftpProgram := enginePrograms(programs)
	if sftpProgram, err = local.ProgramPath(local.SFTPName, sftpProgram); err != nil {
		log.Warn("sftp and scp work only with instances that have an sftp server of their own", "why", err)
		sftpProgram = ""
	}
	options := container.Options{Root: d.file("containers"), Init: initProgram, SFTP: sftpProgram, Log: log, Egress: true}
	if kind != "process" {
		e, err := container.Open(ctx, options)
		if err == nil {
			log.Info("apps run in containers", "why", "a trial container worked")
			return e, container.SFTPInside, nil
		}
		if kind == "container" {
			return nil, "", fmt.Errorf("--engine container: %w", err)
		}
		log.Warn("apps run as plain processes, WITHOUT isolation; --engine container makes this an error", "why", err)
	}
	if err := d.letThrough(); err != nil {
		return nil, "", err
	}
	if sftp, err = d.shared(sftpProgram); err != nil {
		return nil, "", err
	}
	e, err = process.New(process.Options{Root: d.file("processes"), Init: initProgram, Log: log})
	return e, sftp, err
}

// enginePrograms are what runs in instances; empty means to look beside ingot.
func enginePrograms(dir string) (initProgram, sftpProgram string) {
	if dir == "" {
		return "", ""
	}
	return filepath.Join(dir, local.InitName), filepath.Join(dir, local.SFTPName)
}
