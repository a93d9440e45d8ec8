// A picture of a page has few colours: its 16 commonest, the 16 that are least like one of those,
// and for each other one the nearest of them.
async base64 => {
  const source = Uint8Array.from(atob(base64), each => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([source], { type: "image/png" }));
  const { width, height } = image;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);

  const times = new Map();
  for (const pixel of pixels) times.set(pixel, (times.get(pixel) ?? 0) + 1);
  const parts = pixel => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const distance = ([r, g, b], [red, green, blue]) => (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
  const commonest = [...times].sort((one, other) => other[1] - one[1]).map(each => each[0]);
  const palette = commonest.slice(0, 16);
  const others = commonest.slice(16).map(pixel => ({ pixel, far: Infinity }));
  const keep = pixel => others.forEach(each => (each.far = Math.min(each.far, distance(parts(each.pixel), parts(pixel)))));
  palette.forEach(keep);
  while (palette.length < Math.min(32, commonest.length)) {
    const unlike = others.reduce((one, other) => (other.far > one.far ? other : one));
    palette.push(unlike.pixel);
    keep(unlike.pixel);
  }
  const kept = palette.map(parts);
  const places = new Map(palette.map((pixel, place) => [pixel, place]));
  const nearest = pixel => {
    const sought = parts(pixel);
    let best = 0, least = Infinity;
    kept.forEach((each, place) => {
      const far = distance(each, sought);
      if (far < least) [best, least] = [place, far];
    });
    return best;
  };
  const rows = new Uint8Array((width + 1) * height);
  pixels.forEach((pixel, at) => {
    if (!places.has(pixel)) places.set(pixel, nearest(pixel));
    rows[at + Math.floor(at / width) + 1] = places.get(pixel);
  });

  const table = Uint32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
    return byte;
  });
  const chunk = (name, body) => {
    const bytes = new Uint8Array(body.length + 12);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, body.length);
    bytes.set(new TextEncoder().encode(name), 4);
    bytes.set(body, 8);
    let sum = 0xffffffff;
    for (const byte of bytes.subarray(4, -4)) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
    view.setUint32(body.length + 8, (sum ^ 0xffffffff) >>> 0);
    return bytes;
  };
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint16(8, 0x0803); // eight bits, a palette
  const deflated = new Blob([rows]).stream().pipeThrough(new CompressionStream("deflate"));
  const written = new Blob([
    Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10),
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("PLTE", Uint8Array.from(kept.flat())),
    chunk("IDAT", new Uint8Array(await new Response(deflated).arrayBuffer())),
    chunk("IEND", new Uint8Array()),
  ]);
  const bytes = new Uint8Array(await written.arrayBuffer());
  return btoa(Array.from(bytes, each => String.fromCharCode(each)).join(""));
}
