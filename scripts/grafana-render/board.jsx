// Draws one board with Grafana's own components (@grafana/ui, @grafana/data): fields, units, thresholds, mappings,
// overrides and transformations are Grafana's code; only the grid and the choice of component by panel type are here.
//
// window.BOARD is the board's model, window.ANSWERS its series by panel id: a list of
// {refId, kind: "matrix" | "vector", table: bool, series: [{name, labels, points: [[ms, value]]}]}.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';
import {
  FieldType, LoadingState, Registry, ThemeContext, applyFieldOverrides, cacheFieldDisplayNames, createTheme,
  dataLinksOverrideProcessor, dateTime, displayNameOverrideProcessor, getDisplayValueAlignmentFactors, getFieldDisplayName, getFieldDisplayValues, identityOverrideProcessor,
  numberOverrideProcessor, standardTransformers, standardTransformersRegistry, stringOverrideProcessor,
  thresholdsOverrideProcessor, toDataFrame, transformDataFrame, unitOverrideProcessor, valueMappingsOverrideProcessor,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const CELL = 36;
const GAP = 8;
const WIDTH = 1600;
const theme = createTheme({ colors: { mode: 'light' } });

const standard = {
  unit: unitOverrideProcessor, min: numberOverrideProcessor, max: numberOverrideProcessor,
  decimals: numberOverrideProcessor, displayName: displayNameOverrideProcessor, noValue: stringOverrideProcessor,
  links: dataLinksOverrideProcessor, mappings: valueMappingsOverrideProcessor, thresholds: thresholdsOverrideProcessor,
  color: identityOverrideProcessor,
};
const custom = [
  'drawStyle', 'lineWidth', 'fillOpacity', 'showPoints', 'stacking', 'thresholdsStyle', 'cellOptions', 'spanNulls',
  'axisPlacement', 'lineInterpolation',
];
const registry = new Registry(() => [
  ...Object.entries(standard).map(([id, process]) => ({ id, path: id, name: id, process, shouldApply: () => true })),
  ...custom.map((name) => ({
    id: `custom.${name}`, path: name, name, isCustom: true, process: identityOverrideProcessor, shouldApply: () => true,
  })),
]);
const custom_of = {
  timeseries: { drawStyle: 'line', lineWidth: 1, axisPlacement: 'auto', lineInterpolation: 'linear', spanNulls: false },
  'state-timeline': { drawStyle: 'line', lineWidth: 6, axisPlacement: 'auto', lineInterpolation: 'stepAfter' },
};

// Some stand there under two names, an old one and a new one.
const transformers = new Map(Object.values(standardTransformers).map((found) => [found.id, found]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((transformation) => ({
    id: transformation.id, name: transformation.name, transformation: () => Promise.resolve(transformation),
  }))
);

function framesOf(answers) {
  return answers.flatMap(({ refId, table, series }) => {
    if (!table) {
      return series.map(({ name, labels, points }) =>
        toDataFrame({
          refId,
          name,
          fields: [
            { name: 'Time', type: FieldType.time, values: points.map(([at]) => at) },
            { name: 'Value', type: FieldType.number, labels, config: { displayNameFromDS: name || undefined },
              values: points.map(([, value]) => value) },
          ],
        })
      );
    }
    const names = [...new Set(series.flatMap(({ labels }) => Object.keys(labels)))].sort();
    return [
      toDataFrame({
        refId,
        fields: [
          { name: 'Time', type: FieldType.time, values: series.map(({ points }) => points[0][0]) },
          ...names.map((name) => ({
            name, type: FieldType.string, values: series.map(({ labels }) => labels[name] ?? ''),
          })),
          { name: answers.length > 1 ? `Value #${refId}` : 'Value', type: FieldType.number,
            values: series.map(({ points }) => points[0][1]) },
        ],
      }),
    ];
  });
}

async function prepared(panel) {
  const raw = framesOf(window.ANSWERS[panel.id] ?? []);
  const frames = panel.transformations?.length
    ? await lastValueFrom(transformDataFrame(panel.transformations, raw)) : raw;
  const { defaults, overrides } = panel.fieldConfig;
  const shown = applyFieldOverrides({
    data: frames,
    fieldConfig: {
      defaults: { ...defaults, custom: { ...(custom_of[panel.type] ?? {}), ...(defaults.custom ?? {}) } },
      overrides: overrides ?? [],
    },
    fieldConfigRegistry: registry,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(shown);
  return shown;
}

function single(panel, frames) {
  return () => getFieldDisplayValues({
    data: frames, fieldConfig: panel.fieldConfig, reduceOptions: { values: false, ...panel.options.reduceOptions },
    replaceVariables: (text) => text, theme, timeZone: 'utc',
  });
}

const kinds = {
  stat: ({ panel, frames, width, height }) => (
    <VizRepeater source={frames} getValues={single(panel, frames)} width={width} height={height} orientation="auto"
      renderValue={({ value, width, height }) => (
        <BigValue value={value.display} width={width} height={height} theme={theme} {...panel.options} />
      )} />
  ),
  bargauge: ({ panel, frames, width, height }) => (
    <VizRepeater source={frames} getValues={single(panel, frames)} width={width} height={height}
      orientation={panel.options.orientation} minVizHeight={16} itemSpacing={6} getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, width, height, alignmentFactors }) => (
        <BarGauge value={value.display} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          text={{}} width={width} height={height} theme={theme} lcdCellWidth={12} itemSpacing={6}
          alignmentFactors={alignmentFactors} {...panel.options} />
      )} />
  ),
  table: ({ frames, width, height }) => (
    <div style={{ display: 'grid', width, height }}>
      <TableNG data={frames[0]} width={width} height={height} structureRev={1} getActions={() => []} timeRange={range()} />
    </div>
  ),
  timeseries: ({ panel, frames, width, height }) => (
    <TimeSeries frames={frames} width={width} height={height} timeRange={range()} timeZone="utc"
      legend={panel.options.legend} options={{ tooltip: panel.options.tooltip }} structureRev={1} />
  ),
};
// The timeline's component is not in Grafana's npm packages: texts and colours are Grafana's, the strips are drawn here.
kinds['state-timeline'] = ({ frames, width, height }) => {
  const fields = frames.flatMap((frame) => frame.fields.filter(({ type }) => type === FieldType.number)
    .map((field) => ({ field, name: getFieldDisplayName(field, frame, frames), times: frame.fields[0].values })));
  const named = 150;
  const each = Math.min((height - 20) / fields.length, 26);
  const x = (at) => named + ((at - window.FROM) / (window.TO - window.FROM)) * (width - named);
  const hours = Array.from({ length: 7 }, (_, n) => window.FROM + (n * (window.TO - window.FROM)) / 6);
  return (
    <svg width={width} height={height} fontSize={12} fill={theme.colors.text.primary}>
      {fields.map(({ field, name, times }, row) => {
        const step = times.length > 1 ? times[1] - times[0] : 0;
        const strips = [];
        times.forEach((at, n) => {
          if (field.values[n] === null) return;
          const { text, color } = field.display(field.values[n]);
          const last = strips[strips.length - 1];
          if (last && last.text === text && at <= last.to + step) last.to = at;
          else strips.push({ from: at, to: at, text, color });
        });
        return (
          <g key={row}>
            <text x={0} y={row * each + each / 2 + 4}>{name.slice(0, 24)}</text>
            {strips.map(({ from, to, text, color }) => {
              const end = Math.min(to + step, window.TO);
              return (
                <g key={from}>
                  <rect x={x(from)} y={row * each + 2} width={Math.max(x(end) - x(from), 1)} height={each - 4} fill={color}
                    fillOpacity={0.8} />
                  {x(end) - x(from) > 50 ? <text x={x(from) + 6} y={row * each + each / 2 + 4} fill="white">{text}</text> : null}
                </g>
              );
            })}
          </g>
        );
      })}
      {hours.slice(0, 6).map((at) => (
        <text key={at} x={x(at)} y={height - 6} fill={theme.colors.text.secondary}>{dateTime(at).utc().format('HH:mm')}</text>
      ))}
    </svg>
  );
};

function range() {
  const from = dateTime(window.FROM);
  const to = dateTime(window.TO);
  return { from, to, raw: { from, to } };
}

class Fence extends React.Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  render() {
    return this.state.error ? <div className="fault">{String(this.state.error)}</div> : this.props.children;
  }
}

function Drawn({ panel, frames }) {
  const { x, y, w, h } = panel.gridPos;
  const column = (WIDTH - GAP) / 24;
  const box = { left: GAP + x * column, top: GAP + y * CELL, width: w * column - GAP, height: h * CELL - GAP };
  if (panel.type === 'row') {
    return <h3 style={{ position: 'absolute', margin: 0, fontSize: 16, ...box }}>{panel.title}</h3>;
  }
  const Kind = kinds[panel.type];
  const empty = panel.type !== 'stat' && !frames.some((frame) => frame.length);
  return (
    <div style={{ position: 'absolute', ...box }} data-panel={panel.title} data-empty={empty}>
      <PanelChrome title={panel.title} width={box.width} height={box.height} loadingState={LoadingState.Done}>
        {(width, height) => (
          <Fence>
            {empty ? <p>No data</p> : <Kind panel={panel} frames={frames} width={width} height={height} />}
          </Fence>
        )}
      </PanelChrome>
    </div>
  );
}

async function draw() {
  const board = window.BOARD;
  const drawn = [];
  for (const panel of board.panels) {
    drawn.push({ panel, frames: panel.type === 'row' ? [] : await prepared(panel) });
  }
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  createRoot(document.getElementById('board')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <h2 style={{ fontSize: 22, margin: '12px 8px 4px' }}>{board.title}</h2>
      <div style={{ position: 'relative', width: WIDTH, height: bottom * CELL + GAP }}>
        {drawn.map(({ panel, frames }) => <Drawn key={panel.id} panel={panel} frames={frames} />)}
      </div>
    </ThemeContext.Provider>
  );
  setTimeout(() => (document.body.dataset.drawn = 'yes'), 1500);
}

draw().catch((error) => {
  document.body.dataset.drawn = 'no';
  document.body.textContent = error.stack;
});
