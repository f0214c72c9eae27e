//go:build linux

package local

import (
	"context"
	"io"

	"ingot/internal/platform/instance/homedir"
)

// Collect writes a path of the home directory to w as a tar stream; see homedir.Collect.
func (d *Dir) Collect(ctx context.Context, name, inside string, w io.Writer) error {
	return homedir.Collect(ctx, d.Home(), inside, name, w)
}
