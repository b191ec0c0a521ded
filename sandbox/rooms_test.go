package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func mustRooms(tb testing.TB, limits sandbox.Limits) (*sandbox.Rooms, string, string) {
	tb.Helper()
	dir := tb.TempDir()
	rooms, err := sandbox.OpenRooms(dir+"/rooms", limits)
	if err != nil {
		tb.Fatal(err)
	}
	mustMkdir(tb, dir+"/uploads")
	return rooms, dir + "/rooms", dir + "/uploads"
}

func mode(tb testing.TB, path string) os.FileMode {
	tb.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Mode().Perm()
}

func entries(tb testing.TB, dir string) int {
	tb.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return len(list)
}

func pngBytes(tb testing.TB, w, h int) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestRooms_Create(t *testing.T) {
	rooms, dir, uploads := mustRooms(t, sandbox.Limits{})
	mustWrite(t, uploads+"/deep/AGENTS.md", "words")
	if err := os.WriteFile(uploads+"/pic", pngBytes(t, 3, 2), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("words"))
	room, err := rooms.Create(context.Background(), []task.Attachment{
		{Locator: uploads + "/deep/AGENTS.md", Filename: "AGENTS.md", SHA256: "sha256:" + strings.ToUpper(hex.EncodeToString(sum[:]))},
		{Locator: "file://" + uploads + "/pic", Filename: "../../evil.Png"},
		{Locator: uploads + "/deep/AGENTS.md", Filename: "x.<sh> \n"},
	}, []string{"/nowhere", uploads})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(filepath.Base(room.Dir)) || filepath.Dir(room.Dir) != dir {
		t.Errorf("room %s", room.Dir)
	}
	want := []string{"/attachments/attachment-1.md", "/attachments/attachment-2.png", "/attachments/attachment-3.md"}
	if len(room.Files) != 3 {
		t.Fatalf("files %q", room.Files)
	}
	for i, file := range room.Files {
		if file != room.Dir+want[i] || mode(t, file) != 0o400 {
			t.Errorf("file %d: %s %o", i, file, mode(t, file))
		}
	}
	if read(t, room.Files[0]) != "words" {
		t.Error("content differs")
	}
	if len(room.Images) != 1 || room.Images[0] != room.Files[1] {
		t.Errorf("images %q", room.Images)
	}
	if mode(t, dir) != 0o700 || mode(t, room.Dir) != 0o700 || mode(t, room.Dir+"/attachments") != 0o700 {
		t.Error("a room can be entered by others")
	}
	again, err := rooms.Create(context.Background(), nil, nil)
	if err != nil || again.Dir == room.Dir || entries(t, again.Dir) != 0 {
		t.Errorf("second room %v %v", again, err)
	}
	if err := rooms.Remove(room); err != nil || exists(room.Dir) || !exists(again.Dir) {
		t.Errorf("remove: %v", err)
	}
}

func TestRooms_Refusals(t *testing.T) {
	rooms, dir, uploads := mustRooms(t, sandbox.Limits{Attachments: 4, FileBytes: 1000, RoomByte: 1500, Pixels: 100})
	mustWrite(t, uploads+"/ok", "ok")
	mustWrite(t, uploads+"/big", strings.Repeat("b", 1001))
	mustWrite(t, uploads+"/half", strings.Repeat("h", 800))
	mustWrite(t, uploads+"/real/f", "through")
	mustWrite(t, filepath.Dir(uploads)+"/outside", "outside")
	mustSymlink(t, uploads+"/ok", uploads+"/link")
	mustSymlink(t, uploads+"/real", uploads+"/linkdir")
	mustSymlink(t, filepath.Dir(uploads)+"/outside", uploads+"/escape")
	mustFifo(t, uploads+"/fifo")
	mustWrite(t, uploads+"/wide", string(pngBytes(t, 11, 10)))
	mustWrite(t, uploads+"/cut", string(pngBytes(t, 5, 5)[:20]))
	mustWrite(t, uploads+"/bmp", "BM"+strings.Repeat("\x00", 60))
	for name, tc := range map[string]struct {
		a    task.Attachment
		want string
	}{
		"relative":       {task.Attachment{Locator: "ok"}, "not given as a file"},
		"empty":          {task.Attachment{}, "not given as a file"},
		"remote":         {task.Attachment{Locator: "https://example.org/x"}, "not given as a file"},
		"NUL":            {task.Attachment{Locator: uploads + "/ok\x00"}, "no usable path"},
		"dots":           {task.Attachment{Locator: uploads + "/../outside"}, ".. in it"},
		"outside":        {task.Attachment{Locator: filepath.Dir(uploads) + "/outside"}, "none of the attachment roots"},
		"sibling prefix": {task.Attachment{Locator: uploads + "2/ok"}, "none of the attachment roots"},
		"the root":       {task.Attachment{Locator: uploads}, "none of the attachment roots"},
		"link":           {task.Attachment{Locator: uploads + "/link"}, "symlink"},
		"linked dir":     {task.Attachment{Locator: uploads + "/linkdir/f"}, "symlink"},
		"escape":         {task.Attachment{Locator: uploads + "/escape"}, "symlink"},
		"fifo":           {task.Attachment{Locator: uploads + "/fifo"}, "not a regular file"},
		"directory":      {task.Attachment{Locator: uploads + "/real"}, "not a regular file"},
		"missing":        {task.Attachment{Locator: uploads + "/none"}, "cannot be opened"},
		"missing dir":    {task.Attachment{Locator: uploads + "/none/f"}, "cannot be opened"},
		"file as dir":    {task.Attachment{Locator: uploads + "/ok/f"}, "cannot be opened"},
		"large":          {task.Attachment{Locator: uploads + "/big"}, "larger than the 1000 bytes"},
		"digest":         {task.Attachment{Locator: uploads + "/ok", SHA256: strings.Repeat("0", 64)}, "digest"},
		"pixels":         {task.Attachment{Locator: uploads + "/wide"}, "11 x 10 pixels"},
		"broken picture": {task.Attachment{Locator: uploads + "/cut"}, "cannot be read"},
		"other picture":  {task.Attachment{Locator: uploads + "/bmp"}, "kind that is not taken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rooms.Create(context.Background(), []task.Attachment{{Locator: uploads + "/ok"}, tc.a}, []string{uploads})
			var refused *sandbox.AttachmentError
			if !errors.As(err, &refused) || len(refused.Refusals) != 1 || refused.Refusals[0].N != 2 || !strings.Contains(refused.Refusals[0].Why, tc.want) {
				t.Fatalf("got %v, want attachment 2 %s", err, tc.want)
			}
			if tc.a.Locator != "" && strings.Contains(err.Error(), tc.a.Locator) {
				t.Error("the refusal repeats the sender's path")
			}
			if entries(t, dir) != 0 {
				t.Error("the room is left")
			}
		})
	}
	t.Run("sum", func(t *testing.T) {
		half := task.Attachment{Locator: uploads + "/half"}
		_, err := rooms.Create(context.Background(), []task.Attachment{half, half}, []string{uploads})
		if err == nil || !strings.Contains(err.Error(), "attachment 2 is larger than the 700 bytes") {
			t.Errorf("two halves: %v", err)
		}
	})
	t.Run("count", func(t *testing.T) {
		ok := task.Attachment{Locator: uploads + "/ok"}
		_, err := rooms.Create(context.Background(), []task.Attachment{ok, ok, ok, ok, ok}, []string{uploads})
		if err == nil || !strings.Contains(err.Error(), "attachment 5 is more than the 4") {
			t.Errorf("five: %v", err)
		}
		if room, err := rooms.Create(context.Background(), []task.Attachment{ok, ok, ok, ok}, []string{uploads}); err != nil || len(room.Files) != 4 {
			t.Errorf("four: %v", err)
		}
	})
	t.Run("all are named", func(t *testing.T) {
		_, err := rooms.Create(context.Background(), []task.Attachment{{Locator: "x"}, {Locator: uploads + "/link"}}, []string{uploads})
		if err == nil || !strings.Contains(err.Error(), "attachment 1 is not given") || !strings.Contains(err.Error(), "attachment 2 is reached") {
			t.Errorf("both: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := rooms.Create(ctx, []task.Attachment{{Locator: uploads + "/ok"}}, []string{uploads})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestRooms_RootBehindASymlink(t *testing.T) {
	rooms, _, uploads := mustRooms(t, sandbox.Limits{})
	mustWrite(t, uploads+"/f", "x")
	alias := t.TempDir() + "/alias"
	mustSymlink(t, uploads, alias)
	for _, locator := range []string{alias + "/f", uploads + "/f"} {
		if _, err := rooms.Create(context.Background(), []task.Attachment{{Locator: locator}}, []string{alias}); err != nil {
			t.Errorf("%s: %v", locator, err)
		}
	}
}

func TestRooms_Pictures(t *testing.T) {
	rooms, _, uploads := mustRooms(t, sandbox.Limits{Pixels: 1000})
	img := image.NewPaletted(image.Rect(0, 0, 20, 20), color.Palette{color.Black})
	var j, g bytes.Buffer
	if err := jpeg.Encode(&j, img, nil); err != nil {
		t.Fatal(err)
	}
	if err := gif.Encode(&g, img, nil); err != nil {
		t.Fatal(err)
	}
	webp := func(chunk string, payload []byte) string {
		b := append([]byte("RIFF\x00\x00\x00\x00WEBP"+chunk+"\x00\x00\x00\x00"), payload...)
		return string(append(b, make([]byte, 40)...))
	}
	le16 := func(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
	vp8 := func(w, h uint16) string {
		return webp("VP8 ", append(append([]byte{0, 0, 0, 0x9d, 0x01, 0x2a}, le16(w)...), le16(h)...))
	}
	vp8l := func(w, h uint32) string {
		return webp("VP8L", binary.LittleEndian.AppendUint32([]byte{0x2f}, (w-1)|(h-1)<<14))
	}
	vp8x := func(w, h uint32) string {
		return webp("VP8X", []byte{0, 0, 0, 0, byte(w - 1), byte((w - 1) >> 8), byte((w - 1) >> 16), byte(h - 1), byte((h - 1) >> 8), byte((h - 1) >> 16)})
	}
	for name, tc := range map[string]struct {
		data    string
		picture bool
		refused string
	}{
		"text":       {"hello", false, ""},
		"empty":      {"", false, ""},
		"jpeg":       {j.String(), true, ""},
		"gif":        {g.String(), true, ""},
		"png":        {string(pngBytes(t, 100, 10)), true, ""},
		"png large":  {string(pngBytes(t, 100, 11)), false, "100 x 11"},
		"vp8":        {vp8(100, 10), true, ""},
		"vp8 large":  {vp8(100, 11), false, "100 x 11"},
		"vp8l":       {vp8l(100, 10), true, ""},
		"vp8l large": {vp8l(11, 100), false, "11 x 100"},
		"vp8x":       {vp8x(10, 100), true, ""},
		"vp8x large": {vp8x(70000, 3), false, "70000 x 3"},
		"webp other": {webp("XXXX", nil), false, "cannot be read"},
		"webp short": {"RIFF\x00\x00\x00\x00WEBPVP8 ", false, "cannot be read"},
	} {
		mustWrite(t, uploads+"/f", tc.data)
		room, err := rooms.Create(context.Background(), []task.Attachment{{Locator: uploads + "/f", Filename: "innocent.txt"}}, []string{uploads})
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want %s", name, err, tc.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case (len(room.Images) == 1) != tc.picture || len(room.Files) != 1:
			t.Errorf("%s: images %q", name, room.Images)
		}
	}
}

func TestRooms_RemoveReadOnlyAndForeign(t *testing.T) {
	rooms, dir, uploads := mustRooms(t, sandbox.Limits{})
	room, err := rooms.Create(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, uploads+"/keep", "keep")
	mustWrite(t, room.Dir+"/a/b/f", "x")
	mustSymlink(t, uploads, room.Dir+"/a/out")
	for _, d := range []string{room.Dir + "/a/b", room.Dir + "/a", room.Dir} {
		if err := os.Chmod(d, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(room.Dir+"/a/b", 0); err == nil {
		if err := rooms.Remove(room); err != nil || exists(room.Dir) {
			t.Errorf("remove: %v", err)
		}
	}
	if !exists(uploads + "/keep") {
		t.Error("removal followed a symlink")
	}
	if err := rooms.Remove(room); err != nil {
		t.Errorf("a room that is gone: %v", err)
	}
	for _, bad := range []string{uploads, dir, dir + "/..", dir + "/x/y", "", "/"} {
		if err := rooms.Remove(sandbox.Room{Dir: bad}); err == nil {
			t.Errorf("%q is removed", bad)
		}
	}
}

func TestRooms_Sweep(t *testing.T) {
	rooms, dir, _ := mustRooms(t, sandbox.Limits{})
	var made []sandbox.Room
	for range 3 {
		room, err := rooms.Create(context.Background(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, room)
	}
	mustWrite(t, dir+"/probe-x/f", "x")
	n, err := rooms.Sweep(made[1].Dir)
	if err != nil || n != 3 || !exists(made[1].Dir) || entries(t, dir) != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := rooms.Sweep(); err == nil {
		t.Error("a missing directory is swept")
	}
	if _, err := rooms.Create(context.Background(), nil, nil); err == nil {
		t.Error("a room is made in a missing directory")
	}
}

func TestRooms_OpenClosesAnOpenDirectory(t *testing.T) {
	dir := t.TempDir() + "/rooms"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.OpenRooms(dir, sandbox.Limits{}); err != nil || mode(t, dir) != 0o700 {
		t.Errorf("%v, %o", err, mode(t, dir))
	}
	mustWrite(t, dir+"/file", "x")
	mustSymlink(t, dir, dir+"/link")
	for _, bad := range []string{dir + "/file", dir + "/link"} {
		if _, err := sandbox.OpenRooms(bad, sandbox.Limits{}); err == nil {
			t.Errorf("%s is taken for a directory of ours", bad)
		}
	}
}
